import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { fenceGuard, postgres, schemaSql } from '../../src/backends/postgres/index.js'
import { openPort } from '../../src/conformance/port.js'
import { eventually, within } from '../../src/conformance/wait.js'
import { connect } from '../../src/connect.js'
import { BackendError, LockLostError, UnsupportedError } from '../../src/core/errors.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { type Server, startPgbouncer, startPostgres } from '../servers/index.js'
import { holdWithClockOff } from './off-clock.js'
import { takeTurns } from './turns.js'

const TTL_MS = 2_000

let server: Server
let admin: pg.Pool
const closing: { close(): Promise<void> }[] = []

beforeAll(async () => {
  server = await startPostgres()
  admin = new pg.Pool({ connectionString: server.url, max: 4 })
  // The server is killed on purpose.
  admin.on('error', () => undefined)
})
afterEach(async () => {
  await Promise.all(closing.splice(0).map((client) => client.close()))
})
afterAll(async () => {
  await admin.end()
  await server.stop()
})

async function open(url: string = server.url): Promise<Holdfast> {
  const client = await connect(url)
  closing.push(client)
  return client
}

async function port(pool: pg.Pool = admin) {
  const opened = await openPort(postgres(pool), 'ticket-of-this-test-0123')
  closing.push(opened.backend)
  return opened
}

/** A database with settings of its own. */
async function database(name: string, ...settings: string[]): Promise<string> {
  await admin.query(`CREATE DATABASE ${name}`)
  for (const setting of settings) await admin.query(`ALTER DATABASE ${name} SET ${setting}`)
  return server.url.replace(/postgres$/, name)
}

describe('settings of the role or database', () => {
  test.each(['serializable', 'repeatable read'])('default_transaction_isolation = %s', async (level) => {
    const name = level.replace(' ', '_')
    const url = await database(name, `default_transaction_isolation = '${level}'`)
    await takeTurns([await open(url), await open(url)], 30)
    // Behind a pooler the session is not ours to set: the procedure itself puts its transaction right.
    const bouncer = await startPgbouncer(server)
    try {
      const far = bouncer.url.replace(/postgres$/, name)
      await takeTurns([await open(far), await open(far)], 20)
    } finally {
      await Promise.all(closing.splice(0).map((client) => client.close()))
      await bouncer.stop()
    }
  })

  test.each(['lease', 'session'])(
    'statement_timeout and lock_timeout of 200 ms do not end a wait (%s mode)',
    async (mode) => {
      const url = await database(`short_${mode}`, 'statement_timeout = 200', 'lock_timeout = 200')
      const [a, b] = [await open(`${url}?mode=${mode}`), await open(`${url}?mode=${mode}`)]
      const held = await a.lock('short').acquire({ ttl: TTL_MS })
      const waiting = b.lock('short').acquire({ ttl: TTL_MS })
      await new Promise((resolve) => setTimeout(resolve, 700))
      expect(held.state).toBe('held')
      await held.release()
      await (await within('served', waiting)).release()
    },
  )

  test('another time zone, with its fold and gap, changes no lease', async () => {
    const url = await database('elsewhere', "timezone = 'Pacific/Auckland'", "datestyle = 'SQL, DMY'")
    const locks = await open(url)
    const held = await locks.lock('zone').acquire({ ttl: 60_000 })
    const [line] = await locks.view('zone')
    expect(line?.tickets[0]?.remainingMs).toBeGreaterThan(30_000)
    expect(line?.tickets[0]?.remainingMs).toBeLessThanOrEqual(60_000)
    expect(line?.tickets[0]?.ageMs).toBeLessThan(30_000)
    await held.release()
    const short = await locks.lock('zone').acquire({ ttl: TTL_MS, renew: false })
    const next = await within('freed by its ttl', (await open(url)).lock('zone').acquire())
    expect(next.fence > short.fence).toBe(true)
    await next.release()
  })

  test('synchronous_commit = off is put right where a crash would give a fence twice', async () => {
    const url = await database('risky', 'synchronous_commit = off')
    const locks = await open(url)
    const fences: bigint[] = []
    for (let i = 0; i < 3; i += 1) {
      const held = await locks.lock('crash').acquire({ ttl: 1_000 })
      fences.push(held.fence)
      await server.kill()
      await server.start()
      await within(
        'released',
        held.release().catch(() => false),
      )
    }
    expect([...fences].sort((x, y) => (x < y ? -1 : 1))).toEqual(fences)
    expect(new Set(fences).size).toBe(3)
  })
})

test("the client's wall clock an hour off: its hold lasts as long as it says", async () => {
  await holdWithClockOff(server.url, await open(), TTL_MS)
})

describe('one stalled name', () => {
  test('a line that is locked by a stuck transaction stalls nobody else for long', async () => {
    const locks = await open()
    await locks.lock('warm').use(async () => {})
    const stuck = await admin.connect()
    await stuck.query('BEGIN')
    await stuck.query("SELECT pg_advisory_xact_lock(holdfast.line_key('mutex:stuck'))")
    const stalled = locks.lock('stuck').acquire({ wait: 60_000 })
    const started = performance.now()
    await within(
      'fifty others',
      Promise.all(Array.from({ length: 50 }, (_, i) => locks.lock(`o${i}`).use(async () => {}))),
    )
    expect(performance.now() - started).toBeLessThan(20_000)
    const held = await locks.lock('beside').acquire({ ttl: TTL_MS })
    await new Promise((resolve) => setTimeout(resolve, 2 * TTL_MS))
    expect(held.state).toBe('held')
    await held.release()
    await stuck.query('ROLLBACK')
    stuck.release()
    await (await within('the stalled one, once it is free', stalled)).release()
  })

  test('a ticket whose row is locked: its renewal does not wait, and other renewals are done', async () => {
    const { backend, join, renew, leave } = await port()
    const line = (name: string) => ({ kind: 'mutex', name }) as const
    await backend.join([join(line('row1'), 'a'), join(line('row2'), 'b')])
    const stuck = await admin.connect()
    await stuck.query('BEGIN')
    await stuck.query("SELECT FROM holdfast.ticket WHERE line = 'mutex:row1' FOR UPDATE")
    const [first, second] = await within('at once', backend.renew([renew(line('row1'), 'a'), renew(line('row2'), 'b')]))
    expect(first).toMatchObject({ state: 'failed', error: { retryable: true } })
    expect(second?.state).toBe('granted')
    await stuck.query('ROLLBACK')
    stuck.release()
    expect((await backend.renew([renew(line('row1'), 'a')]))[0]?.state).toBe('granted')
    await backend.leave([leave(line('row1'), 'a'), leave(line('row2'), 'b')])
  })

  test('a renewal under way decides against the one that would drop the ticket as dead', async () => {
    const { backend, join, renew, leave } = await port()
    const line = { kind: 'mutex', name: 'late renewal' } as const
    await backend.join([join(line, 'a', { ttlMs: 300 })])
    await backend.join([join(line, 'b')])
    const renewing = await admin.connect()
    await renewing.query('BEGIN')
    // As renew_now does, but slow to commit: it saw the ticket alive.
    await renewing.query(
      "UPDATE holdfast.ticket SET expires = clock_timestamp() + interval '60 s' WHERE line = 'mutex:late renewal' AND seat = 0",
    )
    await new Promise((resolve) => setTimeout(resolve, 400))
    expect((await backend.renew([renew(line, 'b')]))[0]?.state).toBe('waiting')
    await renewing.query('COMMIT')
    renewing.release()
    expect((await backend.renew([renew(line, 'b')]))[0]?.state).toBe('waiting')
    expect((await backend.renew([renew(line, 'a')]))[0]?.state).toBe('granted')
    await backend.leave([leave(line, 'a'), leave(line, 'b')])
  })

  test('a leave while its join waits for the line: no zombie, whichever comes first', async () => {
    const { backend, join, leave } = await port()
    const line = { kind: 'mutex', name: 'overtaken' } as const
    const stuck = await admin.connect()
    for (const first of ['join', 'leave']) {
      await stuck.query('BEGIN')
      await stuck.query("SELECT pg_advisory_xact_lock(holdfast.line_key('mutex:overtaken'))")
      const calls = [
        () => backend.join([join(line, first)]),
        () => backend.leave([leave(line, first, { tombstoneMs: 60_000 })]),
      ]
      const under = (first === 'join' ? calls : calls.toReversed()).map((call) => call())
      await stuck.query('SELECT pg_sleep(0.05)')
      await stuck.query('COMMIT')
      await Promise.all(under)
      expect(await backend.view('overtaken')).toEqual([])
      expect((await backend.join([join(line, first)]))[0]?.state).toBe('gone')
    }
    stuck.release()
  })
})

describe('tables', () => {
  test('ten that start at once on an empty database make one schema', async () => {
    const url = await database('fresh')
    const locks = await Promise.all(Array.from({ length: 10 }, () => open(url)))
    await takeTurns(locks, 3)
    const { rows } = await locksOf(url).query('SELECT version FROM holdfast.version')
    expect(rows).toEqual([{ version: 1 }])
  })

  test('an application user without the right to create: told what to do, and served once an owner did it', async () => {
    const url = await database('strict')
    await admin.query("CREATE ROLE app LOGIN PASSWORD 'app'")
    const app = url.replace('postgres:secret', 'app:app')
    const refused = await connect(app).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(BackendError)
    expect((refused as BackendError).retryable).toBe(false)
    expect((refused as BackendError).message).toContain('holdfast migrate --print')
    const owner = locksOf(url)
    const text = schemaSql()
    await owner.query(text)
    for (const grant of text.matchAll(/^-- {3}(GRANT .*;)$/gm)) await owner.query(grant[1]!.replace('APP', 'app'))
    for (const mode of ['lease', 'session']) await takeTurns([await open(`${app}?mode=${mode}`)], 3)
  })

  test('do not grow with holds, and what is idle is tidied away', async () => {
    const url = await database('growth')
    const locks = await open(url)
    const pool = locksOf(url)
    const size = async () =>
      Number((await pool.query("SELECT pg_total_relation_size('holdfast.ticket') AS size")).rows[0].size)
    const round = async () => {
      for (let i = 0; i < 1_000; i += 250) {
        await Promise.all(Array.from({ length: 250 }, (_, j) => locks.lock(`name ${i + j}`).use(async () => {})))
      }
    }
    await round()
    await round()
    const before = await size()
    for (let i = 0; i < 8; i += 1) await round()
    expect(await size()).toBeLessThanOrEqual(before * 1.5)
    const count = async () => Number((await pool.query('SELECT count(*) AS n FROM holdfast.ticket')).rows[0].n)
    expect(await count()).toBe(1_000)
    await pool.query("UPDATE holdfast.ticket SET expires = expires - interval '1 min'")
    await pool.query("UPDATE holdfast.version SET tidied = tidied - interval '1 min'")
    await pool.query('SELECT holdfast.tidy(400)')
    expect(await count()).toBe(600)
    await pool.query('SELECT holdfast.tidy(400)')
    expect(await count()).toBe(600)
    // A seat that a tidy-up is just taking away, while somebody comes for it.
    const tidying = await pool.connect()
    await tidying.query('BEGIN')
    await tidying.query('DELETE FROM holdfast.ticket')
    const coming = locks.lock('name 999').acquire()
    await tidying.query('SELECT pg_sleep(0.05)')
    await tidying.query('COMMIT')
    tidying.release()
    await (await within('served', coming)).release()
  })

  const pools: pg.Pool[] = []
  afterAll(async () => {
    await Promise.all(pools.map((pool) => pool.end()))
  })
  function locksOf(url: string): pg.Pool {
    const pool = new pg.Pool({ connectionString: url, max: 2 })
    pools.push(pool)
    return pool
  }
})

describe('PgBouncer', () => {
  test('by transaction: lease mode works and says that it polls; session mode refuses', async () => {
    const bouncer = await startPgbouncer(server, { settings: { default_pool_size: '3' } })
    try {
      const [a, b] = [await open(bouncer.url), await open(bouncer.url)]
      expect(a.guarantees.wake).toBe('poll')
      await takeTurns([a, b], 20)
      const held = await a.lock('pooled').acquire()
      const waiting = b.lock('pooled').acquire()
      await eventually('b waits', async () => (await a.view('pooled'))[0]?.tickets.length === 2)
      await held.release()
      await (await within('b is served', waiting)).release()
      const refused = await connect(`${bouncer.url}?mode=session`).catch((error: unknown) => error)
      expect(refused).toBeInstanceOf(UnsupportedError)
      expect((refused as Error).message).toMatch(/pooler/)
    } finally {
      await Promise.all(closing.splice(0).map((client) => client.close()))
      await bouncer.stop()
    }
  })

  test('by session: as without it', async () => {
    const bouncer = await startPgbouncer(server, { poolMode: 'session', settings: { default_pool_size: '40' } })
    try {
      const a = await open(bouncer.url)
      expect(a.guarantees.wake).toBe('push')
      await takeTurns([a], 10)
      await takeTurns([await open(`${bouncer.url}?mode=session`)], 10)
    } finally {
      await Promise.all(closing.splice(0).map((client) => client.close()))
      await bouncer.stop()
    }
  })
})

test('fenceGuard refuses the write of a holder that was paused, and its transaction with it', async () => {
  const [a, b] = [await open(), await open()]
  await admin.query('CREATE TABLE account (id text PRIMARY KEY, balance int)')
  const write = async (fence: bigint, balance: number): Promise<void> => {
    const client = await admin.connect()
    try {
      await client.query('BEGIN')
      await fenceGuard(client, 'account', fence)
      await client.query('INSERT INTO account VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET balance = $2', [
        'a',
        balance,
      ])
      await client.query('COMMIT')
    } catch (error) {
      await client.query('ROLLBACK')
      throw error
    } finally {
      client.release()
    }
  }
  const paused = await a.lock('account').acquire({ ttl: 1_000, renew: false })
  await write(paused.fence, 1)
  const next = await within('lapsed', b.lock('account').acquire())
  await write(next.fence, 2)
  await write(next.fence, 3)
  await expect(write(paused.fence, 4)).rejects.toBeInstanceOf(LockLostError)
  expect((await admin.query('SELECT balance FROM account')).rows).toEqual([{ balance: 3 }])
  await next.release()
})

test('session mode has no semaphores, and says so before anything is taken', async () => {
  const locks = await open(`${server.url}?mode=session`)
  await expect(async () => await locks.semaphore('gpu', 2).acquire()).rejects.toBeInstanceOf(UnsupportedError)
})
