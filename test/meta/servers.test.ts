import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { describe, expect, test, vi } from 'vitest'
import {
  type Server,
  startCluster,
  startEtcd,
  startEtcdCluster,
  startMariadb,
  startMemcached,
  startPgbouncer,
  startPostgres,
  startPostgresReplica,
  startProxy,
  startRedis,
  startSentinel,
  startZookeeper,
  startZookeeperEnsemble,
} from '../servers/index.js'

const SINGLE: Record<string, () => Promise<Server>> = {
  redis: startRedis,
  memcached: startMemcached,
  etcd: startEtcd,
  zookeeper: startZookeeper,
  postgres: startPostgres,
  mariadb: startMariadb,
}

describe.each(Object.entries(SINGLE))('one %s server', (_, start) => {
  test('starts, is killed and started again on its port, and leaves nothing', async () => {
    const server = await start()
    const { pid, port, directory } = server
    expect(isAlive(pid)).toBe(true)
    await server.kill()
    expect(isAlive(pid)).toBe(false)
    expect(server.pid).toBe(0)
    await server.start()
    expect(server.port).toBe(port)
    await server.shutdown()
    await server.start()
    const last = server.pid
    await server.stop()
    expect(isAlive(last)).toBe(false)
    expect(await listens(port)).toBe(false)
    expect(existsSync(directory)).toBe(false)
  })
})

test('a paused server does not answer until it is resumed', async () => {
  const server = await startRedis()
  try {
    server.pause()
    const socket = connect({ port: server.port })
    socket.write('PING\r\n')
    let answered = false
    const answer = once(socket, 'data').then(() => {
      answered = true
    })
    await once(socket, 'connect')
    expect(answered).toBe(false)
    server.resume()
    await answer
    socket.destroy()
  } finally {
    await server.stop()
  }
})

test.each(
  Object.entries({
    'Redis with Sentinel': startSentinel,
    'Redis Cluster': startCluster,
    'etcd of three': startEtcdCluster,
    'ZooKeeper of three': startZookeeperEnsemble,
  }),
)('%s forms and stops', async (_, start) => {
  const ensemble = await start()
  expect(ensemble.url).toMatch(/,127\.0\.0\.1:\d+,/)
  await ensemble.stop()
})

test('PostgreSQL with a replica and PgBouncer', async () => {
  const primary = await startPostgres()
  const others = await Promise.all([startPgbouncer(primary), startPostgresReplica(primary)])
  for (const server of [primary, ...others]) expect(await listens(server.port)).toBe(true)
  await Promise.all([primary, ...others].map((server) => server.stop()))
})

test('MariaDB with a replica', async () => {
  const primary = await startMariadb({ binlog: true })
  const replica = await startMariadb({ replicaOf: primary })
  await vi.waitFor(() => expect(replica.log()).toContain('connected to master'), { timeout: 30_000 })
  await Promise.all([primary.stop(), replica.stop()])
})

test('a server dies with its test process, also when that is killed', async () => {
  const module = new URL('../../build/test/servers/index.js', import.meta.url).href
  const script = `
    const { startMemcached } = await import(${JSON.stringify(module)})
    const server = await startMemcached()
    console.log(server.pid)
    setInterval(() => {}, 1000)
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const pid = Number(line.toString())
  expect(isAlive(pid)).toBe(true)
  child.kill('SIGKILL')
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 20_000 })
})

test('the proxy passes, drops, cuts, refuses and heals', async () => {
  const server = await startMemcached()
  const proxy = await startProxy(server)
  try {
    expect(await version(proxy.port)).toContain('VERSION')
    expect(proxy.requests.bytes).toBe('version\r\n'.length)
    proxy.replies.fault = 'drop'
    const dropped = proxy.next('replies', 'VERSION')
    const silent = version(proxy.port)
    await dropped
    proxy.cutNow()
    expect(await silent).toBe('')
    proxy.replies.fault = 'halve'
    expect(await version(proxy.port)).toMatch(/^VERSION$|^VERSI/)
    proxy.replies.fault = 'pass'
    proxy.requests.fault = 'cut'
    expect(await version(proxy.port)).toBe('')
    await proxy.refuse()
    expect(await listens(proxy.port)).toBe(false)
    await proxy.heal()
    expect(await version(proxy.port)).toContain('VERSION')
  } finally {
    await proxy.stop()
    await server.stop()
  }
})

/** What the server says to `version`, up to the first line or the end of the connection. */
async function version(port: number): Promise<string> {
  const socket = connect({ port })
  socket.on('error', () => socket.destroy())
  socket.write('version\r\n')
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk.toString()
    if (text.includes('\n')) socket.destroy()
  })
  await once(socket, 'close')
  return text
}

function isAlive(pid: number): boolean {
  if (!existsSync(`/proc/${pid}`)) return false
  // A dead process whose parent has not asked for its end yet is dead.
  return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
}

async function listens(port: number): Promise<boolean> {
  const socket = connect({ port, host: '127.0.0.1' })
  return (await new Promise((resolve) => {
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
  }).finally(() => socket.destroy())) as boolean
}
