import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { postgres } from '../../src/backends/postgres/index.js'
import { eventually, within } from '../../src/conformance/wait.js'
import { connect } from '../../src/connect.js'
import { BackendError } from '../../src/core/errors.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { type Server, startPostgres, startPostgresReplica, startProxy } from '../servers/index.js'
import { aborted } from './aborted.js'

const TTL_MS = 3_000
/** By the deadline; the rest is for a machine that is busy. */
const SOON_MS = TTL_MS + 12_000

let server: Server
let admin: pg.Pool
const clients: Holdfast[] = []

beforeAll(async () => {
  server = await startPostgres({ settings: { max_connections: '60' } })
  admin = pool(server)
})
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()))
})
afterAll(async () => {
  await admin.end()
  await server.stop()
})

function pool(of: { readonly url: string }, max = 2): pg.Pool {
  const made = new pg.Pool({ connectionString: of.url, max })
  made.on('error', () => undefined)
  return made
}

async function open(url: string = server.url): Promise<Holdfast> {
  const client = await connect(url)
  clients.push(client)
  return client
}

/** Ends the server's side of every connection but the one that asks. */
async function terminateAll(by: pg.Pool = admin): Promise<void> {
  await by.query(
    'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL',
  )
}

describe('lease mode', () => {
  test.each([
    ['a restart', () => server.shutdown()],
    ['kill -9', () => server.kill()],
  ])('%s of the server loses no hold, no place in line and no fence', async (_, end) => {
    const [a, b, c] = [await open(), await open(), await open()]
    const held = await a.lock('restart').acquire({ ttl: 20_000 })
    const second = b.lock('restart').acquire({ ttl: 20_000 })
    await eventually('b waits', async () => (await a.view('restart'))[0]?.tickets.length === 2)
    const third = c.lock('restart').acquire({ ttl: 20_000 })
    await eventually('c waits', async () => (await a.view('restart'))[0]?.tickets.length === 3)
    await end()
    await server.start()
    expect(held.signal.aborted).toBe(false)
    await within('a is held after the restart', held.renew())
    expect(held.state).toBe('held')
    expect(await within('release', held.release())).toBe(true)
    const next = await within('b is served', second)
    expect(next.fence > held.fence).toBe(true)
    await next.release()
    const last = await within('c is served', third)
    expect(last.fence > next.fence).toBe(true)
    await last.release()
  })

  test('a server that stays away: the signal comes by the deadline, and the waiter is served when it is back', async () => {
    const [a, b] = [await open(), await open()]
    const held = await a.lock('away').acquire({ ttl: TTL_MS })
    const waiting = b.lock('away').acquire({ ttl: TTL_MS })
    await eventually('b waits', async () => (await a.view('away'))[0]?.tickets.length === 2)
    await server.kill()
    try {
      await within('the signal', aborted(held.signal), SOON_MS)
      expect(() => held.assertHeld()).toThrow()
    } finally {
      await server.start()
    }
    const next = await within('b is served', waiting, 30_000)
    expect(next.fence > held.fence).toBe(true)
    await next.release()
  })

  test('pg_terminate_backend of all our connections costs no hold and no place', async () => {
    const [a, b] = [await open(), await open()]
    const held = await a.lock('terminated').acquire({ ttl: TTL_MS })
    const waiting = b.lock('terminated').acquire({ ttl: TTL_MS })
    await eventually('b waits', async () => (await a.view('terminated'))[0]?.tickets.length === 2)
    for (let i = 0; i < 3; i += 1) {
      await terminateAll()
      await within('a is held', held.renew())
    }
    expect(held.signal.aborted).toBe(false)
    expect(await held.release()).toBe(true)
    const next = await within('b is served', waiting)
    await next.release()
  })

  test('a notification that is lost costs time, not the grant', async () => {
    const [a, b] = [await open(), await open()]
    const held = await a.lock('deaf').acquire()
    const waiting = b.lock('deaf').acquire()
    await eventually('b waits', async () => (await a.view('deaf'))[0]?.tickets.length === 2)
    await admin.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
    await held.release()
    await (await within('b is served', waiting)).release()
  })

  test('a failover to a replica: read-only is an error that passes, and fences go on after the promotion', async () => {
    const primary = await startPostgres({ settings: { wal_level: 'replica' } })
    const replica = await startPostgresReplica(primary)
    const onReplica = pool(replica)
    try {
      const both = `postgres://postgres:secret@127.0.0.1:${primary.port},127.0.0.1:${replica.port}/postgres`
      const [a, b] = [await open(both), await open(both)]
      const held = await a.lock('failover').acquire({ ttl: TTL_MS })
      const waiting = b.lock('failover').acquire({ ttl: TTL_MS })
      const here = 'SELECT count(*)::int AS n FROM holdfast.ticket WHERE id <> $1'
      await eventually('replicated', async () => (await onReplica.query<{ n: number }>(here, [''])).rows[0]?.n === 2)
      await primary.kill()
      const refused = await a
        .lock('other')
        .tryAcquire()
        .catch((error: unknown) => error)
      expect(refused).toBeInstanceOf(BackendError)
      expect((refused as BackendError).retryable).toBe(true)
      await within('the signal, since a replica takes no renewal', aborted(held.signal), SOON_MS)
      await onReplica.query('SELECT pg_promote()')
      const next = await within('b is served by the promoted replica', waiting, 30_000)
      expect(next.fence > held.fence).toBe(true)
      await next.release()
    } finally {
      await Promise.all(clients.splice(0).map((client) => client.close()))
      await onReplica.end()
      await replica.stop()
      await primary.stop()
    }
  })

  test("a full pool of the application's, and a server without a free connection", async () => {
    const work = pool(server, 1)
    const busy = await work.connect()
    const locks = new Holdfast(postgres(work))
    clients.push(locks)
    const held = await within('locked beside a full pool', locks.lock('full').acquire({ ttl: TTL_MS }))
    await within('renewed', held.renew())
    const crowd: pg.Client[] = []
    for (;;) {
      const one = new pg.Client({ connectionString: server.url })
      one.on('error', () => undefined)
      try {
        await one.connect()
      } catch {
        break
      }
      crowd.push(one)
    }
    const failed = await connect(server.url).catch((error: unknown) => error)
    expect(failed).toBeInstanceOf(BackendError)
    expect((failed as BackendError).retryable).toBe(true)
    await within('renewed on the connection it has', held.renew())
    expect(await held.release()).toBe(true)
    await Promise.all(crowd.map((one) => one.end()))
    busy.release()
    await work.end()
  })

  test('requests and replies that are lost: no zombie, no second holder', async () => {
    const proxy = await startProxy({ port: server.port })
    try {
      const far = await open(`postgres://postgres:secret@127.0.0.1:${proxy.port}/postgres`)
      const near = await open()
      proxy.replies.fault = 'cut'
      const unknown = far
        .lock('cut')
        .acquire({ ttl: TTL_MS, wait: 5_000 })
        .catch((error: unknown) => error)
      await proxy.next('replies')
      await proxy.heal()
      const outcome = await within('settled', unknown, 30_000)
      if (!(outcome instanceof Error)) {
        expect(await near.lock('cut').tryAcquire()).toBeUndefined()
        await (outcome as { release(): Promise<boolean> }).release()
      }
      const after = await within('free again', near.lock('cut').acquire({ wait: 20_000 }))
      await after.release()
      expect(await near.view('cut')).toEqual([])
    } finally {
      await proxy.stop()
    }
  })
})
