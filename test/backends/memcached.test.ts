import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Link } from '../../src/backends/memcached/client/link.js'
import { GUARANTEES } from '../../src/backends/memcached/guarantees.js'
import { memcached } from '../../src/backends/memcached/index.js'
import { Keys, serverFor } from '../../src/backends/memcached/keys.js'
import { LineStore } from '../../src/backends/memcached/line-store.js'
import { append } from '../../src/backends/memcached/line-value.js'
import { connect } from '../../src/connect.js'
import { BackendError, ConfigError, UnsupportedError } from '../../src/core/errors.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { ensure, type Server, startMemcached } from '../servers/index.js'
import { describeBackend } from '../suite.js'

describeBackend('memcached', GUARANTEES, () => startMemcached())

describe('memcached alone', () => {
  let server: Server
  let directory: string
  beforeAll(async () => {
    server = await startMemcached()
    directory = mkdtempSync(join(tmpdir(), 'holdfast-memcached-test-'))
  })
  afterAll(async () => {
    await server.stop()
    rmSync(directory, { recursive: true })
  })

  test('nothing is left in the store when everybody has left', async () => {
    const own = await startMemcached()
    const [a, b] = await Promise.all([connect(own.url), connect(own.url)])
    await Promise.all([a, b].flatMap((locks) => Array.from({ length: 20 }, () => locks.lock('x').use(async () => {}))))
    await Promise.all([a, b].map((locks) => locks.semaphore('s p a c e', 2).use(async () => {})))
    await a.all(['x', a.readWriteLock('y').write]).use(async () => {})
    const held = await a.lock('held at close').acquire()
    expect(await keysOn(own)).toContain('holdfast:hash:mutex:')
    await Promise.all([a.close(), b.close()])
    expect(held.state).not.toBe('held')
    expect(await keysOn(own)).toBe('')
    await own.stop()
  })

  test('several servers: each name lives on one, whatever order a client lists them in', async () => {
    const servers = await Promise.all([startMemcached(), startMemcached(), startMemcached()])
    const hosts = servers.map(({ host, port }) => `${host}:${port}`)
    const a = await connect(`memcached://${hosts.join(',')}`)
    const b = await connect(`memcached://${hosts.toReversed().join(',')}`)
    const names = Array.from({ length: 60 }, (_, index) => `name ${index}`)
    const leases = await Promise.all(names.map((name) => a.lock(name).acquire()))
    for (const name of names) expect(await b.lock(name).tryAcquire()).toBeUndefined()
    const counts = await Promise.all(
      servers.map(async (one) => (await keysOn(one)).split('\n').filter((key) => key.includes(':hash:')).length),
    )
    for (const count of counts) expect(count).toBeGreaterThan(0)
    expect(counts.reduce((sum, count) => sum + count)).toBe(names.length)
    const listed: string[] = []
    for await (const line of b.lines('name ')) listed.push(line.name)
    expect(listed.toSorted()).toEqual(names.toSorted())
    await Promise.all(leases.map((lease) => lease.release()))
    await Promise.all([a.close(), b.close(), ...servers.map((one) => one.stop())])
  })

  test('one server more moves only the names that it takes', () => {
    const three = ['a', 'b', 'c'].map((host) => ({ host, port: 11_211 }))
    const four = [...three, { host: 'd', port: 11_211 }]
    const names = Array.from({ length: 1_000 }, (_, index) => `name-${index}`)
    const moved = names.filter((name) => serverFor(name, three) !== serverFor(name, four))
    expect(moved.every((name) => serverFor(name, four) === 3)).toBe(true)
    expect(moved.length).toBeGreaterThan(150)
    expect(moved.length).toBeLessThan(350)
  })

  test('require refuses it for anything beyond efficiency, before anything is taken', async () => {
    const locks = await connect(server.url)
    const refused = [{ fence: 'strict' }, { fence: 'clock' }, { survives: ['store-restart'] }] as const
    for (const require of refused) {
      await expect(async () => await locks.lock('x').acquire({ require })).rejects.toThrow(UnsupportedError)
    }
    expect(await locks.view('x')).toEqual([])
    expect(locks.guarantees.sentence).toMatch(/^Efficiency only/)
    await locks.close()
  })

  test('a password is needed where the server asks for one', async () => {
    const file = join(directory, 'auth')
    writeFileSync(file, 'user:s3/cret\n')
    chmodSync(file, 0o644)
    const guarded = await startMemcached({ args: ['-Y', file] })
    const at = `127.0.0.1:${guarded.port}`
    const locks = await connect(`memcached://user:s3%2Fcret@${at}`)
    await locks.lock('x').use(async () => {})
    await locks.close()
    const wrong = await failure(connect(`memcached://user:wr0ng@${at}`))
    expect(wrong).toBeInstanceOf(BackendError)
    expect(wrong).toMatchObject({ retryable: false })
    expect(wrong.message).toMatch(/refused the password/)
    expect(wrong.message).not.toContain('wr0ng')
    expect(await failure(connect(`memcached://${at}`))).toMatchObject({
      retryable: false,
      message: expect.stringMatching(/asks for a password/) as string,
    })
    await guarded.stop()
  })

  test('TLS', async () => {
    const [key, certificate] = [join(directory, 'key.pem'), join(directory, 'certificate.pem')]
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']
    const files = ['-keyout', key, '-out', certificate]
    const request = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...subject, ...files]
    execFileSync(await ensure('openssl'), request, { stdio: 'ignore' })
    const options = ['-o', `ssl_chain_cert=${certificate},ssl_key=${key}`]
    const secure = await startMemcached({ args: ['-Z', ...options], tls: true })
    const tls = { ca: readFileSync(certificate) }
    const locks = new Holdfast(memcached({ servers: [`localhost:${secure.port}`], tls }))
    await locks.lock('x').use(async () => {})
    await locks.close()
    const stranger = await failure(connect(`memcacheds://localhost:${secure.port}`))
    expect(stranger.message).toMatch(/self-signed/)
    await secure.stop()
  })

  test('a URL or server that cannot work is told at once, and says what to do', async () => {
    await expect(connect('memcached://')).rejects.toThrow(ConfigError)
    await expect(connect(`${server.url}?prefixx=1`)).rejects.toThrow(/unknown parameter 'prefixx'/)
    await expect(connect(`${server.url}?timeout=soon`)).rejects.toThrow(ConfigError)
    await expect(connect(`${server.url}?prefix=a%20b`)).rejects.toThrow(ConfigError)
    expect(() => memcached({ servers: [] })).toThrow(ConfigError)
    const closed = await failure(connect('memcached://127.0.0.1:1'))
    expect(closed).toMatchObject({ code: 'BACKEND', retryable: true })
    expect(closed.message).toMatch(/Cannot connect to memcached at 127\.0\.0\.1:1.*Check the host and port/)
    for (const [answer, message] of [
      ['VERSION 1.4.25\r\n', /not memcached 1\.6 or newer/],
      ['HTTP/1.1 400 Bad Request\r\n\r\n', /not memcached 1\.6 or newer/],
    ] as const) {
      const other = createServer((socket) => socket.end(answer)).listen(0, '127.0.0.1')
      await new Promise((resolve) => other.once('listening', resolve))
      const { port } = other.address() as { port: number }
      expect((await failure(connect(`memcached://127.0.0.1:${port}`))).message).toMatch(message)
      other.close()
    }
  })

  test('a value under our key that is not ours is an error, not a no', async () => {
    const link = new Link(server, { timeoutMs: 2_000 })
    const connection = await link.connection()
    await connection.send(['ms holdfast:line:mutex:foreign 5 T60\r\nhello'])
    const locks = await connect(server.url)
    const error = await failure(locks.lock('foreign').tryAcquire())
    expect(error).toMatchObject({ code: 'BACKEND', retryable: false })
    expect(error.message).toContain('holdfast:line:mutex:foreign')
    await connection.send(['md holdfast:line:mutex:foreign'])
    await locks.close()
    link.close()
  })

  test('two prefixes are two worlds', async () => {
    const [a, b] = await Promise.all(['a:', 'b:'].map((prefix) => connect(`${server.url}?prefix=${prefix}`)))
    await a!.lock('x').use(async () => {
      expect(await b!.lock('x').tryAcquire()).toBeDefined()
    })
    await Promise.all([a!.close(), b!.close()])
  })

  test('a held lease and an idle client do not keep the process alive', () => {
    const script = `
      const { connect } = await import(${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)})
      const locks = await connect(${JSON.stringify(server.url)})
      const lease = await locks.lock('left behind').acquire({ ttl: '1s' })
      console.log(lease.state)
    `
    const run = spawnSync(process.execPath, ['--input-type=module', '-e', script], { timeout: 30_000 })
    expect(run.stderr.toString()).toBe('')
    expect(run.status).toBe(0)
    expect(run.stdout.toString()).toBe('held\n')
  })

  // memcached drops what was stored before when it refuses a value as too large: it must not get to see one.
  test('a line that is too long for one value takes no more, and keeps those it has', async () => {
    const store = new LineStore(new Link(server, { timeoutMs: 2_000 }), new Keys('holdfast:'))
    const line = { kind: 'mutex', name: 'too long' } as const
    const ticket = (id: string) => ({ id, weight: 1, capacity: 1 })
    await store.change(line, undefined, ({ value }) => ({ write: append(value, ticket('first')) }))
    const entry = (index: number) => ({ ...ticket(`ticket-${index}`), handle: 'a handle', order: index, left: false })
    const entries = Array.from({ length: 40_000 }, (_, index) => entry(index))
    const error = await failure(store.change(line, undefined, ({ value }) => ({ write: { ...value, entries } })))
    expect(error).toMatchObject({ code: 'BACKEND', retryable: false })
    expect(error.message).toMatch(/Too many stand/)
    expect((await store.readOne(line)).value.entries.map(({ id }) => id)).toEqual(['first'])
    await store.change(line, undefined, ({ value }) => ({ write: { ...value, entries: [] } }))
    store.link.close()
  })

  test('what is too long for one value is told by its bytes, not its letters', async () => {
    const store = new LineStore(new Link(server, { timeoutMs: 2_000 }), new Keys('holdfast:'))
    const line = { kind: 'mutex', name: 'é'.repeat(600_000) } as const
    const write = store.change(line, undefined, ({ value }) => ({
      write: append(value, { id: 'first', weight: 1, capacity: 1 }),
    }))
    expect(await failure(write)).toMatchObject({ code: 'BACKEND', retryable: false })
    store.link.close()
  })

  test('five thousand stand in one line', async () => {
    const backend = memcached({ servers: [`127.0.0.1:${server.port}`] })
    await backend.open({ granted() {}, moved() {}, lost() {}, unsure() {} })
    const line = { kind: 'mutex', name: 'long' } as const
    const holder = { owner: 'o', client: 'c', host: 'h', pid: 1 }
    const request = {
      line,
      weight: 1,
      capacity: 1,
      wait: true,
      ttlMs: 60_000,
      waitTtlMs: 60_000,
      holder,
      takeover: false,
    }
    const ids = Array.from({ length: 5_000 }, (_, index) => `ticket-of-the-long-line-${index}`)
    for (let start = 0; start < ids.length; start += 500) {
      const standings = await backend.join(ids.slice(start, start + 500).map((id) => ({ ...request, id })))
      expect(standings.every(({ state }) => state === 'waiting' || state === 'granted')).toBe(true)
    }
    const leave = (id: string) => ({ line, id, handle: id, keepMs: 0, tombstoneMs: 0 })
    expect(await backend.leave([leave(ids[0]!)])).toEqual([true])
    const [second] = await backend.renew([{ line, id: ids[1]!, handle: ids[1]!, ttlMs: 5_000, waitTtlMs: 5_000 }])
    expect(second).toMatchObject({ state: 'granted', order: 2n })
    for (let start = 1; start < ids.length; start += 500) {
      await backend.leave(ids.slice(start, start + 500).map(leave))
    }
    await backend.close()
  })
})

/** The keys of the store, one a line. */
async function keysOn(server: Server): Promise<string> {
  const link = new Link(server, { timeoutMs: 5_000 })
  const connection = await link.connection()
  const lines = await connection.list('lru_crawler metadump all')
  link.close()
  return lines
    .map(({ code }) => decodeURIComponent(code))
    .filter((code) => code !== 'END')
    .join('\n')
}

async function failure(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise
  } catch (error) {
    if (error instanceof Error) return error
  }
  throw new Error('It did not fail.')
}
