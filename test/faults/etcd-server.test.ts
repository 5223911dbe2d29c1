import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join as joinPath } from 'node:path'
import { type AddressInfo, createServer } from 'node:net'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import { openBackend } from '../../src/connect.js'
import { BackendError, connect, Holdfast } from '../../src/index.js'
import { ensure, freePort, freePorts, type Server, startEtcd, startProxy } from '../servers/index.js'
import { flags, startServer } from '../servers/process.js'
import { temporaryDirectory } from '../servers/watchdog.js'

const run = promisify(execFile)
const cleanups: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

async function client(url: string): Promise<Holdfast> {
  const made = await connect(url)
  cleanups.push(() => made.close())
  return made
}

async function started(args: readonly string[] = []): Promise<Server> {
  const server = await startEtcd({ args })
  cleanups.push(() => server.stop())
  return server
}

async function etcdctl(server: Pick<Server, 'port'>, ...args: string[]): Promise<string> {
  const env = { ...process.env, ETCDCTL_API: '3' }
  const { stdout } = await run(await ensure('etcdctl'), ['--endpoints', `127.0.0.1:${server.port}`, ...args], { env })
  return stdout
}

async function failure(work: Promise<unknown>): Promise<BackendError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(BackendError)
  return error as BackendError
}

describe('users and passwords', () => {
  async function withUsers(args: readonly string[] = []): Promise<Server> {
    const server = await started(args)
    await etcdctl(server, 'user', 'add', 'root:secret')
    await etcdctl(server, 'user', 'grant-role', 'root', 'root')
    await etcdctl(server, 'user', 'add', 'app:word')
    await etcdctl(server, 'role', 'add', 'locks')
    await etcdctl(server, 'role', 'grant-permission', 'locks', '--prefix=true', 'readwrite', 'holdfast/')
    await etcdctl(server, 'user', 'grant-role', 'app', 'locks')
    await etcdctl(server, 'auth', 'enable')
    return server
  }

  test('a wrong password, no password and a role without permission are told at once, without a secret', async () => {
    const server = await withUsers()
    const wrong = await failure(connect(`etcd://app:wr0ng@127.0.0.1:${server.port}`))
    expect(wrong.message).toContain('Check the user and the password')
    expect(wrong.message).not.toContain('wr0ng')
    expect(wrong.retryable).toBe(false)
    expect((await failure(connect(server.url))).retryable).toBe(false)
    const elsewhere = await failure(connect(`etcd://app:word@127.0.0.1:${server.port}/other`))
    expect(elsewhere.message).toContain('permission')
    const locks = await client(`etcd://app:word@127.0.0.1:${server.port}`)
    await (await locks.lock('x').acquire()).release()
  })

  test('who is not let in leaves no connection behind, and is let in once it may', async () => {
    const server = await withUsers()
    const proxy = await startProxy({ port: server.port })
    cleanups.push(() => proxy.stop())
    const elsewhere = new Holdfast(await openBackend(`etcd://app:word@127.0.0.1:${proxy.port}/other`))
    const mistaken = new Holdfast(await openBackend(`etcd://app:wr0ng@127.0.0.1:${proxy.port}`))
    cleanups.push(
      () => elsewhere.close(),
      () => mistaken.close(),
    )
    for (let i = 0; i < 3; i += 1) {
      await failure(elsewhere.lock('x').tryAcquire())
      await failure(mistaken.lock('x').tryAcquire())
    }
    expect(proxy.accepted).toBeGreaterThan(0)
    await expect.poll(() => proxy.open, { timeout: 5_000 }).toBe(0)
    const permission = ['grant-permission', 'locks', '--prefix=true', 'readwrite', 'other/']
    await etcdctl(server, '--user', 'root:secret', 'role', ...permission)
    const lease = await elsewhere.lock('x').acquire({ wait: '10s' })
    expect(await lease.release()).toBe(true)
  })

  test('a token that ends while we hold and wait is fetched anew', async () => {
    const server = await withUsers(['--auth-token-ttl', '2'])
    const url = `etcd://app:word@127.0.0.1:${server.port}`
    const [locks, others] = [await client(url), await client(url)]
    const lease = await locks.lock('x').acquire({ ttl: 10_000 })
    // Idle for longer than the token lasts: the server drops tokens that nobody used.
    await new Promise((resolve) => setTimeout(resolve, 6_000))
    const waiting = others.lock('x').acquire({ ttl: 10_000 })
    await expect.poll(async () => (await locks.view('x'))[0]?.tickets.length, { timeout: 10_000 }).toBe(2)
    await new Promise((resolve) => setTimeout(resolve, 4_000))
    expect(lease.state).toBe('held')
    expect(await lease.release()).toBe(true)
    await (await waiting).release()
  })

  test('tokens that a restart forgot are fetched anew', async () => {
    const server = await withUsers()
    const locks = await client(`etcd://app:word@127.0.0.1:${server.port}`)
    const lease = await locks.lock('x').acquire({ ttl: 10_000 })
    await server.kill()
    await server.start()
    await expect.poll(() => lease.renew().then(() => lease.state), { timeout: 10_000 }).toBe('held')
    expect(await lease.release()).toBe(true)
    await (await locks.lock('x').acquire()).release()
  })
})

describe('TLS', () => {
  test('a private authority is trusted when it is named, and only then; a client certificate is shown', async () => {
    const directory = mkdtempSync(joinPath(tmpdir(), 'holdfast-tls-'))
    cleanups.push(async () => rmSync(directory, { recursive: true, force: true }))
    await ensure('openssl')
    makeCertificates(directory)
    const file = (name: string): string => joinPath(directory, name)
    const { port } = await startTls(directory)
    const url = `etcd://127.0.0.1:${port}/?tls=true`
    const mine = `&cert=${file('client.crt')}&key=${file('client.key')}`
    const locks = await client(`${url}&ca=${file('ca.crt')}${mine}`)
    const others = await client(`${url}&ca=${file('ca.crt')}${mine}`)
    const lease = await locks.lock('x').acquire({ ttl: 2_000 })
    const waiting = others.lock('x').acquire({ ttl: 2_000 })
    await expect.poll(async () => (await locks.view('x'))[0]?.tickets.length, { timeout: 5_000 }).toBe(2)
    // Renewed, longer than it would last, and handed on by a push.
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    expect(lease.state).toBe('held')
    expect(await lease.release()).toBe(true)
    await (await waiting).release()
    const named = await client(`${url}&ca=${file('ca.crt')}${mine}&servername=127.0.0.1`)
    await (await named.lock('x').acquire()).release()
    const other = await failure(connect(`${url}&ca=${file('ca.crt')}${mine}&servername=elsewhere.example`))
    expect(other.retryable).toBe(false)
    const stranger = await failure(connect(`${url}${mine}`))
    expect(stranger.message).toContain("certificate authority ('ca')")
    expect(stranger.retryable).toBe(false)
    // Without a certificate of its own it is turned away, and without TLS it gets no answer: both soon.
    await failure(connect(`${url}&ca=${file('ca.crt')}`))
    await failure(connect(`etcd://127.0.0.1:${port}`))
  })
})

/** A server that speaks TLS alone, and asks its clients for a certificate. */
async function startTls(directory: string): Promise<Server> {
  const [port, peer] = await freePorts(2)
  const file = (name: string): string => joinPath(directory, name)
  const server = await startServer({
    name: 'etcd',
    url: '',
    port: port!,
    otherPorts: [peer!],
    directory: temporaryDirectory('etcd'),
    file: await ensure('etcd'),
    args: [
      '--client-cert-auth',
      ...flags({
        'data-dir': joinPath(directory, 'data'),
        logger: 'zap',
        'log-level': 'error',
        'listen-client-urls': `https://127.0.0.1:${port}`,
        'advertise-client-urls': `https://127.0.0.1:${port}`,
        'listen-peer-urls': `http://127.0.0.1:${peer}`,
        'initial-advertise-peer-urls': `http://127.0.0.1:${peer}`,
        'initial-cluster': `default=http://127.0.0.1:${peer}`,
        'cert-file': file('server.crt'),
        'key-file': file('server.key'),
        'trusted-ca-file': file('ca.crt'),
      }),
    ],
    ready: async () => {
      const endpoint = ['--endpoints', `https://127.0.0.1:${port}`, '--cacert', file('ca.crt')]
      const own = ['--cert', file('client.crt'), '--key', file('client.key')]
      const env = { ...process.env, ETCDCTL_API: '3' }
      return await run(await ensure('etcdctl'), [...endpoint, ...own, 'endpoint', 'health'], { env }).then(
        () => true,
        () => false,
      )
    },
  })
  cleanups.push(() => server.stop())
  return server
}

describe('space', () => {
  test('with the quota used up holders keep and release, newcomers are told why, and disarming is enough', async () => {
    const server = await started(['--quota-backend-bytes', String(1024 * 1024)])
    const [locks, others] = [await client(server.url), await client(server.url)]
    const lease = await locks.lock('x').acquire({ ttl: 4_000 })
    const waiting = others.lock('x').acquire({ ttl: 4_000 })
    await expect.poll(async () => (await locks.view('x'))[0]?.tickets.length, { timeout: 5_000 }).toBe(2)
    await fill(server)
    const refused = await failure(others.lock('y').acquire({ ttl: 4_000 }))
    expect(refused.message).toContain('alarm disarm')
    expect(refused.retryable).toBe(false)
    // Kept alive for longer than its ttl, without a single put.
    await new Promise((resolve) => setTimeout(resolve, 5_000))
    expect(lease.state).toBe('held')
    expect(await lease.release()).toBe(true)
    // Granted, and cannot be put under the lease of its hold: it is kept on the one it waited on.
    const second = await waiting
    await new Promise((resolve) => setTimeout(resolve, 5_000))
    expect(second.state).toBe('held')
    expect(await second.release()).toBe(true)
    const status = JSON.parse(await etcdctl(server, 'endpoint', 'status', '-w', 'json')) as {
      Status: { header: { revision: number } }
    }[]
    await etcdctl(server, 'compact', String(status[0]!.Status.header.revision))
    await etcdctl(server, 'defrag')
    await etcdctl(server, 'alarm', 'disarm')
    await (await others.lock('y').acquire({ ttl: 4_000 })).release()
  })

  test('with the quota used up tickets can be evicted, and what minHold keeps is not dropped before its ttl', async () => {
    const server = await started(['--quota-backend-bytes', String(1024 * 1024)])
    const [locks, others] = [await client(server.url), await client(server.url)]
    const [first, second] = [
      await locks.lock('first').acquire({ ttl: 4_000 }),
      await locks.lock('second').acquire({ ttl: 4_000 }),
    ]
    const kept = await locks.lock('kept').acquire({ ttl: 8_000, minHold: '1h' })
    const ticket = async (name: string) => (await others.view(name))[0]?.tickets[0]
    // From now on the others have a lease for letters, that they cannot write; a newcomer has none.
    await locks.lock('before').acquire({ ttl: 4_000 })
    expect(await others.evict((await ticket('before'))!)).toBe(true)
    await fill(server)
    expect(await others.evict((await ticket('first'))!)).toBe(true)
    expect(await (await client(server.url)).evict((await ticket('second'))!)).toBe(true)
    // No letter tells it, but its next renewal.
    await expect.poll(() => [first.state, second.state], { timeout: 10_000 }).toEqual(['lost', 'lost'])
    const refused = await failure(kept.release())
    expect(refused.message).toContain('alarm disarm')
    expect((await ticket('kept'))?.state).toBe('held')
    await expect.poll(() => ticket('kept'), { timeout: 30_000 }).toBeUndefined()
  })

  async function fill(server: Server): Promise<void> {
    const value = 'x'.repeat(100_000)
    for (let i = 0; i < 100; i += 1) {
      const full = await etcdctl(server, 'put', 'ballast', value).then(
        () => false,
        () => true,
      )
      if (full) return
    }
    throw new Error('the quota was never used up')
  }
})

describe('one server', () => {
  test('a server that is not there, and one that is not etcd, are told at once', async () => {
    const nobody = await failure(connect(`etcd://127.0.0.1:${await freePort()}`))
    expect(nobody.retryable).toBe(true)
    const other = createServer((socket) => socket.end('220 hello\r\n'))
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    cleanups.push(async () => other.close())
    await failure(connect(`etcd://127.0.0.1:${(other.address() as AddressInfo).port}`))
  })

  test('a restart of the server keeps who holds, and the line behind it', async () => {
    const server = await started()
    const [locks, others] = [await client(server.url), await client(server.url)]
    const lease = await locks.lock('x').acquire({ ttl: 10_000 })
    const waiting = others.lock('x').acquire({ ttl: 10_000 })
    await expect.poll(async () => (await locks.view('x'))[0]?.tickets.length, { timeout: 5_000 }).toBe(2)
    await server.kill()
    await server.start()
    await expect.poll(() => lease.state, { timeout: 10_000 }).toBe('held')
    expect(await lease.release()).toBe(true)
    const second = await waiting
    expect(second.fence).toBeGreaterThan(lease.fence)
    await second.release()
  })

  test('who asked in vain while the server was away is told of an eviction at once when it is back', async () => {
    const server = await started()
    const [locks, others] = [await client(server.url), await client(server.url)]
    await (await locks.lock('warm').acquire()).release()
    await server.kill()
    for (let i = 0; i < 3; i += 1) await failure(locks.lock('x').tryAcquire())
    await server.start()
    // Its own renewal would tell it too, after some minutes.
    const lease = await locks.lock('x').acquire({ ttl: '30m', wait: '20s' })
    const [line] = await locks.view('x')
    expect(await others.evict(line!.tickets[0]!)).toBe(true)
    await expect.poll(() => lease.state, { timeout: 20_000 }).toBe('lost')
  })

  test('who held while the server was away is told of an eviction at once when it is back', async () => {
    const server = await started()
    const [locks, others] = [await client(server.url), await client(server.url)]
    const lease = await locks.lock('x').acquire({ ttl: '30m' })
    await server.kill()
    await expect.poll(() => lease.state, { timeout: 20_000 }).toBe('uncertain')
    await server.start()
    await expect.poll(() => lease.state, { timeout: 20_000 }).toBe('held')
    const [line] = await locks.view('x')
    expect(await others.evict(line!.tickets[0]!)).toBe(true)
    await expect.poll(() => lease.state, { timeout: 20_000 }).toBe('lost')
  })

  test('an idle client does not keep its process alive, nor does one that holds', async () => {
    const server = await started()
    const script = `
      import { connect } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)}
      const locks = await connect(${JSON.stringify(server.url)})
      const lease = await locks.lock('held').acquire({ ttl: 2_000 })
      console.log(lease.state)
    `
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { timeout: 15_000 })
    expect(stdout.trim()).toBe('held')
  })

  test('a hold that is not renewed ends at its ttl, though other holds keep its lease alive', async () => {
    const server = await started()
    const [locks, others] = [await client(server.url), await client(server.url)]
    const kept = await locks.lock('kept').acquire({ ttl: 2_000 })
    await locks.lock('left').acquire({ ttl: 2_000, renew: false })
    await (await others.lock('left').acquire({ ttl: 2_000, wait: '10s' })).release()
    expect(kept.state).toBe('held')
    await kept.release()
  })

  test('a lease that somebody revoked takes its holds with it, and new ones work', async () => {
    const server = await started()
    const [locks, others] = [await client(server.url), await client(server.url)]
    const lease = await locks.lock('x').acquire({ ttl: 3_000 })
    const list = await etcdctl(server, 'lease', 'list')
    for (const id of list.match(/^[0-9a-f]{8,}$/gm) ?? []) await etcdctl(server, 'lease', 'revoke', id)
    const next = await others.lock('x').acquire({ ttl: 3_000 })
    await expect.poll(() => lease.state, { timeout: 5_000 }).toBe('lost')
    await next.release()
    const names = Array.from({ length: 5 }, (_, i) => `after:${i}`)
    const leases = await Promise.all(names.map((name) => locks.lock(name).acquire({ ttl: 3_000 })))
    await Promise.all(leases.map((one) => one.release()))
  })
})

/** An authority, a server's certificate for 127.0.0.1 and a client's, by openssl. */
function makeCertificates(directory: string): void {
  const openssl = (...args: string[]): void => {
    execFileSync('openssl', args, { cwd: directory, stdio: 'ignore' })
  }
  const days = ['-days', '2']
  const fresh = ['-newkey', 'rsa:2048', '-nodes']
  openssl('req', '-x509', ...fresh, ...days, '-subj', '/CN=holdfast test', '-keyout', 'ca.key', '-out', 'ca.crt')
  for (const name of ['server', 'client']) {
    openssl(
      'req',
      ...fresh,
      '-subj',
      `/CN=${name}`,
      '-keyout',
      `${name}.key`,
      '-out',
      `${name}.csr`,
      '-addext',
      'subjectAltName=IP:127.0.0.1',
    )
    openssl(
      'x509',
      '-req',
      ...days,
      '-in',
      `${name}.csr`,
      '-CA',
      'ca.crt',
      '-CAkey',
      'ca.key',
      '-CAcreateserial',
      '-copy_extensions',
      'copy',
      '-out',
      `${name}.crt`,
    )
  }
}
