// Session mode: what happens to holds that are the server's own locks, when server, connection or clock fail.
import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { eventually, within } from '../../src/conformance/wait.js'
import { connect } from '../../src/connect.js'
import { BackendError } from '../../src/core/errors.js'
import type { Holdfast } from '../../src/core/holdfast.js'
import { type Server, startPostgres, startPostgresReplica, startProxy } from '../servers/index.js'
import { aborted } from './aborted.js'
import { holdWithClockOff } from './off-clock.js'
import { tryWithLostAnswer } from './own-ghost.js'
import { takeTurns } from './turns.js'

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

function pool(of: { readonly url: string }): pg.Pool {
  const made = new pg.Pool({ connectionString: of.url, max: 2 })
  made.on('error', () => undefined)
  return made
}

async function open(url: string = server.url, more = ''): Promise<Holdfast> {
  const client = await connect(`${url}?mode=session${more}`)
  clients.push(client)
  return client
}

/** A database with settings of its own. */
async function database(name: string, ...settings: string[]): Promise<string> {
  await admin.query(`CREATE DATABASE ${name}`)
  for (const setting of settings) await admin.query(`ALTER DATABASE ${name} SET ${setting}`)
  return server.url.replace(/postgres$/, name)
}

/** Ends the server's side of every connection but the one that asks. */
async function terminateAll(): Promise<void> {
  await admin.query(
    'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL',
  )
}

test.each([
  ['pg_terminate_backend', () => terminateAll()],
  [
    'a restart',
    async () => {
      await server.shutdown()
      await server.start()
    },
  ],
  [
    'kill -9',
    async () => {
      await server.kill()
      await server.start()
    },
  ],
])('%s: a hold is lost with its session, at once; the next is served', async (_, end) => {
  const [a, b] = [await open(), await open()]
  const held = await a.lock('session').acquire({ ttl: 20_000 })
  const waiting = b.lock('session').acquire({ ttl: 20_000 })
  await eventually('b waits', async () => (await a.view('session'))[0]?.tickets.length === 2)
  await end()
  await within('the signal, long before the ttl', aborted(held.signal), SOON_MS)
  expect(await held.release()).toBe(false)
  const next = await within('b is served', waiting)
  expect(next.fence > held.fence).toBe(true)
  await next.release()
})

test('a holder that is cut off: its signal by the deadline, and the server ends its session', async () => {
  const proxy = await startProxy({ port: server.port })
  try {
    const far = await open(`postgres://postgres:secret@127.0.0.1:${proxy.port}/postgres`)
    const near = await open()
    const held = await far.lock('cut off').acquire({ ttl: TTL_MS })
    proxy.blackhole()
    const waiting = near.lock('cut off').acquire({ ttl: TTL_MS })
    await within('the signal', aborted(held.signal), SOON_MS)
    await (await within('the next is served', waiting, SOON_MS + TTL_MS)).release()
  } finally {
    await proxy.heal()
    await proxy.stop()
  }
})

test('100 waiters of one line and 20 lines need no more than the connections allowed', async () => {
  const locks = await open(server.url, '&connections=3')
  const other = await open()
  const count = 'SELECT count(DISTINCT pid)::int AS n FROM pg_stat_activity WHERE application_name LIKE $1'
  const before = (await admin.query<{ n: number }>(count, ['holdfast\\_%'])).rows[0]?.n ?? 0
  const held = await Promise.all(Array.from({ length: 20 }, (_, i) => other.lock(`many ${i}`).acquire()))
  const waiting = Array.from({ length: 100 }, (_, i) => locks.lock(`many ${i % 20}`).acquire())
  await eventually('they wait', async () => (await locks.view('many 3'))[0]?.tickets.length === 6)
  const during = (await admin.query<{ n: number }>(count, ['holdfast\\_%'])).rows[0]?.n ?? 0
  expect(during - before).toBeLessThanOrEqual(3)
  await Promise.all(held.map((lease) => lease.release()))
  await within('all are served', Promise.all(waiting.map(async (lease) => await (await lease).release())), 40_000)
})

test('excludes, and is excluded by, anybody who takes the same advisory lock', async () => {
  const locks = await open()
  const held = await locks.lock('shared with psql').acquire()
  const text = "SELECT pg_try_advisory_lock(hashtextextended('mutex:shared with psql', 0)) AS got"
  const psql = await admin.connect()
  expect((await psql.query<{ got: boolean }>(text)).rows[0]?.got).toBe(false)
  await held.release()
  expect((await psql.query<{ got: boolean }>(text)).rows[0]?.got).toBe(true)
  expect(await locks.lock('shared with psql').tryAcquire()).toBeUndefined()
  psql.release(true)
  await (await within('free when psql is gone', locks.lock('shared with psql').acquire())).release()
})

test('a writer is not passed by readers that come after it', async () => {
  const [a, b] = [await open(), await open()]
  const first = await a.readWriteLock('rw').read.acquire()
  const writer = b.readWriteLock('rw').write.acquire()
  // Not the view: it shows the writer before its session stands in the server's queue.
  const text = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
  await eventually('the writer waits', async () => (await admin.query(text)).rowCount === 1)
  expect(await a.readWriteLock('rw').read.tryAcquire()).toBeUndefined()
  const reader = a.readWriteLock('rw').read.acquire()
  await first.release()
  const writing = await within('the writer', writer)
  expect(await b.readWriteLock('rw').read.tryAcquire()).toBeUndefined()
  await writing.release()
  await (await within('the reader', reader)).release()
})

test('a failover to a replica: lost at once, an error that passes while it is read-only, then fences go on', async () => {
  const primary = await startPostgres({ settings: { wal_level: 'replica' } })
  const replica = await startPostgresReplica(primary)
  const onReplica = pool(replica)
  try {
    const both = `postgres://postgres:secret@127.0.0.1:${primary.port},127.0.0.1:${replica.port}/postgres`
    const [a, b] = [await open(both), await open(both)]
    const held = await a.lock('failover').acquire({ ttl: TTL_MS })
    const waiting = b.lock('failover').acquire({ ttl: TTL_MS })
    await eventually('b waits', async () => (await a.view('failover'))[0]?.tickets.length === 2)
    const here = 'SELECT last_value >= $1 AS n FROM holdfast.ord'
    const replicated = async (): Promise<boolean> =>
      (await onReplica.query<{ n: boolean }>(here, [String(held.fence)])).rows[0]?.n === true
    await eventually('replicated', () => replicated().catch(() => false))
    await primary.kill()
    await within('the signal', aborted(held.signal), SOON_MS)
    await expect(a.lock('other').tryAcquire()).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
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

test('a server without a free connection: who has one goes on, who waits is served, and a newcomer is told', async () => {
  const [a, b] = [await open(), await open()]
  const held = await a.lock('crowded').acquire({ ttl: TTL_MS })
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
  const failed = await connect(`${server.url}?mode=session`).catch((error: unknown) => error)
  expect(failed).toBeInstanceOf(BackendError)
  expect(failed).toMatchObject({ retryable: true })
  await within('renewed on the connection it has', held.renew())
  // There is no session to be had that could wait: the lock is asked for now and then.
  const waiting = b.lock('crowded').acquire({ ttl: TTL_MS })
  expect(await b.lock('crowded').tryAcquire()).toBeUndefined()
  expect(await held.release()).toBe(true)
  const next = await within('the waiter is served', waiting)
  expect(next.fence > held.fence).toBe(true)
  await next.release()
  await Promise.all(crowd.map((one) => one.end()))
})

test.each(['serializable', 'repeatable read'])('default_transaction_isolation = %s', async (level) => {
  const url = await database(`session_${level.replace(' ', '_')}`, `default_transaction_isolation = '${level}'`)
  await takeTurns([await open(url), await open(url)], 30)
})

test('another time zone, with its fold and gap, changes no age', async () => {
  const url = await database('session_elsewhere', "timezone = 'Pacific/Auckland'", "datestyle = 'SQL, DMY'")
  const [a, b] = [await open(url), await open(url)]
  const held = await a.lock('zone').acquire({ ttl: 60_000 })
  await eventually('it is seen', async () => (await b.view('zone')).length === 1)
  const [line] = await b.view('zone')
  expect(line?.tickets[0]?.ageMs).toBeGreaterThanOrEqual(0)
  expect(line?.tickets[0]?.ageMs).toBeLessThan(30_000)
  expect(held.remainingMs).toBeGreaterThan(30_000)
  expect(await held.release()).toBe(true)
})

test("the client's wall clock an hour off: its hold lasts as long as it says", async () => {
  await holdWithClockOff(`${server.url}?mode=session`, await open(), TTL_MS)
})

test('a try whose answer was lost is not refused by what it may have got itself: the outcome is unknown', async () => {
  const through = (port: number): Promise<Holdfast> => open(server.url.replace(`:${server.port}/`, `:${port}/`))
  await tryWithLostAnswer(server.port, through, { with: 'pg_try_advisory_lock' })
})

test('what others can see goes with its client, and what a killed one left is removed by the next', async () => {
  const count = async (like: string) => {
    const text = 'SELECT count(*)::int AS n FROM holdfast.session_ticket WHERE line LIKE $1'
    return (await admin.query<{ n: number }>(text, [`mutex:${like}`])).rows[0]?.n
  }
  const [first, second] = [await open(), await open()]
  await Promise.all(Array.from({ length: 5 }, (_, i) => first.lock(`seen ${i}`).acquire()))
  const released = await first.lock('seen and released').acquire()
  await eventually('they are written', async () => (await count('seen %')) === 6)
  await released.release()
  await first.close()
  expect(await count('seen %')).toBe(0)
  await second.lock('kept').acquire()
  await eventually('it is written', async () => (await count('kept')) === 1)
  await admin.query(`INSERT INTO holdfast.session_ticket (id, line, ord, granted, weight, capacity, holder, inbox, pid)
    SELECT 'dead' || i, 'mutex:dead', i, true, 1, 1, '{}', 'holdfast_dead', 1 FROM generate_series(1, 20) i`)
  await (await open()).lock('next').acquire()
  await eventually('the dead are gone', async () => (await count('dead')) === 0)
  expect(await count('kept')).toBe(1)
})

test('a note that was written without an answer goes with its ticket', async () => {
  const proxy = await startProxy({ port: server.port })
  try {
    const locks = await open(server.url.replace(`:${server.port}/`, `:${proxy.port}/`))
    const unanswered = proxy.next('requests', 'session_ticket (id').then(() => {
      proxy.replies.fault = 'cut'
      return proxy.next('replies')
    })
    const held = await locks.lock('unsure').acquire()
    await within('the answer to its note is lost', unanswered)
    await proxy.heal()
    const { rows } = await admin.query("SELECT FROM holdfast.session_ticket WHERE line = 'mutex:unsure'")
    expect(rows).toHaveLength(1)
    await held.release()
    const other = await open()
    await eventually('nobody sees it any more', async () => (await other.view('unsure')).length === 0)
  } finally {
    await proxy.heal()
    await proxy.stop()
  }
})
