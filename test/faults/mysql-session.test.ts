// Session mode: what happens to holds that are the server's own locks, when server, connection or clock fail.
import type { Pool } from 'mysql2/promise'
import { createPool } from 'mysql2/promise'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { localLine } from '../../src/backends/mysql/session/ticket.js'
import { lineValue } from '../../src/backends/mysql/sql-text.js'
import { eventually, within } from '../../src/conformance/wait.js'
import { connect } from '../../src/connect.js'
import { UnsupportedError } from '../../src/core/errors.js'
import type { Holdfast } from '../../src/core/holdfast.js'
import { type Server, startMariadb, startProxy } from '../servers/index.js'
import { aborted } from './aborted.js'
import { holdWithClockOff } from './off-clock.js'
import { tryWithLostAnswer } from './own-ghost.js'
import { takeTurns } from './turns.js'

const TTL_MS = 2_000

let server: Server
let admin: Pool
const clients: Holdfast[] = []

beforeAll(async () => {
  // As in production: a commit reaches the disk, so kill -9 may not lose one.
  server = await startMariadb({ args: ['--innodb-flush-log-at-trx-commit=1', '--max-connections=40'] })
  admin = pool(server.url)
})
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()))
})
afterAll(async () => {
  await admin.end()
  await server.stop()
})

function pool(uri: string, connectionLimit = 1): Pool {
  return createPool({ uri, connectionLimit, multipleStatements: true })
}

async function open(url: string = server.url): Promise<Holdfast> {
  const client = await connect(`${url}?mode=session`)
  clients.push(client)
  return client
}

/** Ends every connection but the one that asks. */
async function killConnections(): Promise<void> {
  const [rows] = await admin.query(
    "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'",
  )
  for (const { id } of rows as { id: number }[]) await admin.query(`KILL ${id}`).catch(() => undefined)
}

test.each([
  ['its connection is killed', () => killConnections()],
  [
    'the server restarts',
    async () => {
      await server.shutdown()
      await server.start()
    },
  ],
  [
    'kill -9 of the server',
    async () => {
      await server.kill()
      await server.start()
    },
  ],
])('%s: lost at once, and the waiters are served with greater fences', async (_, fault) => {
  const [a, b] = [await open(), await open()]
  const held = await a.lock('session').acquire({ ttl: 30_000 })
  const waiting = b.lock('session').acquire({ ttl: 30_000 })
  await eventually('it waits', async () => (await a.view('session'))[0]?.tickets.length === 2)
  await fault()
  await within('its signal, long before the ttl', aborted(held.signal), 15_000)
  expect(held.state).toBe('lost')
  const next = await within('the waiter is served', waiting)
  expect(next.fence).toBeGreaterThan(held.fence)
  expect(next.state).toBe('held')
  await next.release()
})

test('a fence is never given twice, though kill -9 comes right after it', async () => {
  let last = 0n
  for (let round = 0; round < 3; round += 1) {
    const locks = await open()
    for (let i = 0; i < 3; i += 1) {
      const lease = await locks.lock('fence').acquire()
      expect(lease.fence).toBeGreaterThan(last)
      last = lease.fence
      await lease.release()
    }
    await server.kill()
    await locks.close()
    await server.start()
  }
})

test('a server whose counter is behind what was used draws above that, the same for all', async () => {
  await (await (await open()).lock('behind').acquire()).release()
  await Promise.all(clients.splice(0).map((client) => client.close()))
  // As after a clock that was put back, or a failover to a server that started earlier.
  const used = 70_000_000_000_000_000n
  await admin.query(`UPDATE holdfast_floor SET n = ${used}`)
  await server.shutdown()
  await server.start()
  let last = used
  const both = [await open(), await open()]
  for (let i = 0; i < 20; i += 1) {
    const lease = await both[i % 2]!.lock('behind').acquire()
    expect(lease.fence).toBeGreaterThan(last)
    last = lease.fence
    await lease.release()
  }
})

test('a hundred waiters on one lock and thirty on others need a handful of connections', async () => {
  const [a, b] = [await open(), await open()]
  const held = await Promise.all(Array.from({ length: 30 }, (_, i) => a.lock(`crowd:${i}`).acquire()))
  let served = 0
  const wait = async (name: string): Promise<void> => {
    await b.lock(name).use(async () => {
      served += 1
    })
  }
  const waiting = [
    ...Array.from({ length: 100 }, () => wait('crowd:0')),
    ...Array.from({ length: 29 }, (_, i) => wait(`crowd:${i + 1}`)),
  ]
  await eventually('they stand', async () => (await b.view('crowd:0'))[0]?.tickets.length === 101)
  const [rows] = await admin.query('SELECT COUNT(*) AS n FROM information_schema.processlist')
  expect((rows as { n: number }[])[0]!.n).toBeLessThanOrEqual(20)
  for (const lease of held) await lease.release()
  await within('all are served', Promise.all(waiting))
  expect(served).toBe(129)
})

test('a limit of the server’s on statements cuts no wait short', async () => {
  await admin.query('SET GLOBAL max_statement_time = 0.5')
  try {
    const [a, b] = [await open(), await open()]
    const held = await a.lock('limit').acquire()
    const waiting = b.lock('limit').acquire()
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    await held.release()
    await (await within('it is served', waiting)).release()
  } finally {
    await admin.query('SET GLOBAL max_statement_time = 0')
  }
})

test('what GET_LOCK cannot do is refused, and says what can', async () => {
  const locks = await open()
  expect(() => locks.semaphore('refused', 2)).toThrow(UnsupportedError)
  expect(() => locks.readWriteLock('refused')).toThrow(UnsupportedError)
  await expect(locks.lock('refused').acquire({ owner: 'me', takeover: true })).rejects.toThrow(/lease mode/)
})

test('a holder that is cut off: its signal by the deadline, and the server ends its session', async () => {
  const proxy = await startProxy({ port: server.port })
  try {
    const far = await open(`mysql://root:secret@127.0.0.1:${proxy.port}/holdfast`)
    const near = await open()
    const held = await far.lock('cut off').acquire({ ttl: TTL_MS })
    proxy.blackhole()
    const waiting = near.lock('cut off').acquire({ ttl: TTL_MS })
    await within('the signal', aborted(held.signal), TTL_MS + 12_000)
    const next = await within('the next is served', waiting, 2 * TTL_MS + 15_000)
    expect(next.fence).toBeGreaterThan(held.fence)
    await next.release()
  } finally {
    await proxy.heal()
    await proxy.stop()
  }
})

test('a waiter that gave up while its try had no answer never gets the lock', async () => {
  const proxy = await startProxy({ port: server.port })
  try {
    const near = await open()
    const far = await connect(`mysql://root:secret@127.0.0.1:${proxy.port}/holdfast?mode=session&connections=1`)
    clients.push(far)
    const held = await Promise.all([near.lock('ghost:1').acquire(), near.lock('ghost:2').acquire()])
    // The one session that waits is taken by the first: the second is tried now and then.
    const first = far.lock('ghost:1').acquire()
    first.catch(() => undefined)
    await eventually('it waits', async () => (await near.view('ghost:1'))[0]?.tickets.length === 2)
    const second = far.lock('ghost:2').acquire({ wait: 2_500 })
    second.catch(() => undefined)
    await eventually('it waits too', async () => (await near.view('ghost:2'))[0]?.tickets.length === 2)
    await proxy.next('requests', 'GET_LOCK')
    proxy.blackhole()
    await expect(second).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' })
    await proxy.heal()
    const other = (): Promise<void> =>
      far.lock('ghost:other').use(() => new Promise((resolve) => setTimeout(resolve, 20)))
    await within('the try that had no answer is over', other())
    await held[1].release()
    // Time for many a try of those who wait.
    for (let i = 0; i < 20; i += 1) await other()
    const next = await near.lock('ghost:2').tryAcquire()
    expect(next).toBeDefined()
    await next?.release()
    await held[0].release()
    await (await within('who goes on waiting is served', first)).release()
  } finally {
    await proxy.heal()
    await proxy.stop()
  }
})

test('a connection whose set-up has no answer is given up, and the next one is fine', async () => {
  const proxy = await startProxy({ port: server.port })
  try {
    const locks = await open(`mysql://root:secret@127.0.0.1:${proxy.port}/holdfast`)
    const setUp = proxy.next('requests', 'CONNECTION_ID').then(() => {
      proxy.replies.fault = 'drop'
      return proxy.next('replies')
    })
    proxy.cutNow()
    const acquired = locks.lock('set-up').acquire()
    await within('the answer to its set-up is lost', setUp)
    await proxy.heal()
    await (await within('it is served', acquired)).release()
  } finally {
    await proxy.heal()
    await proxy.stop()
  }
})

test('a session that ends while its fence is made safe holds nothing: the lock is asked for anew', async () => {
  const proxy = await startProxy({ port: server.port })
  try {
    const near = await open()
    const far = await open(`mysql://root:secret@127.0.0.1:${proxy.port}/holdfast`)
    const raised = proxy.next('requests', 'SET n = GREATEST').then(() => {
      proxy.replies.fault = 'hold'
    })
    const acquired = far.lock('ended').acquire({ ttl: 30_000 })
    await within('it has the lock, and raises the floor of the fences', raised)
    const { lock } = localLine(lineValue({ kind: 'mutex', name: 'ended' }), 'holdfast/holdfast_')
    const [rows] = await admin.query(`SELECT IS_USED_LOCK('${lock}') AS id`)
    const { open: connections } = proxy
    await admin.query(`KILL ${(rows as { id: number }[])[0]!.id}`)
    await eventually('its session has ended', () => proxy.open < connections)
    await proxy.heal()
    const held = await within('it holds all the same', acquired)
    expect(held.state).toBe('held')
    expect(await near.lock('ended').tryAcquire()).toBeUndefined()
    expect(await held.release()).toBe(true)
  } finally {
    await proxy.heal()
    await proxy.stop()
  }
})

test('a try whose answer was lost is not refused by what it may have got itself: the outcome is unknown', async () => {
  await tryWithLostAnswer(server.port, (port) => open(`mysql://root:secret@127.0.0.1:${port}/holdfast`), {
    with: 'GET_LOCK',
    // It may come in two pieces.
    untilAnswered: () => admin.query('DO SLEEP(0.5)'),
  })
})

test('notes of processes that were killed are dropped in time, those of the living are not', async () => {
  const locks = await open()
  const held = await locks.lock('note').acquire()
  await eventually('it is written down', async () => (await locks.view('note')).length === 1)
  const note = (id: string, age: number): string =>
    `('${id}', 'm:killed', 1, 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL ${age} SECOND, '')`
  const old = Array.from({ length: 40 }, (_, i) => note(`killed:${i}`, 3_600))
  // Just faded: its process may only have been stopped.
  await admin.query(
    `INSERT INTO holdfast_session (id, line, ord, connection, joined, expires, holder) VALUES ${[...old, note('stopped', 5)].join(',')}`,
  )
  await open()
  await eventually('the old ones are gone', async () => {
    const [rows] = await admin.query("SELECT id FROM holdfast_session WHERE id LIKE 'killed:%'")
    return (rows as object[]).length === 0
  })
  const [left] = await admin.query("SELECT id FROM holdfast_session WHERE id = 'stopped' OR line = 'm:note'")
  expect(left).toHaveLength(2)
  await admin.query("DELETE FROM holdfast_session WHERE id = 'stopped'")
  await held.release()
})

test('a note that was written without an answer goes with its ticket', async () => {
  const proxy = await startProxy({ port: server.port })
  try {
    const locks = await open(`mysql://root:secret@127.0.0.1:${proxy.port}/holdfast`)
    const unanswered = proxy.next('requests', 'INTO holdfast_session').then(() => {
      proxy.replies.fault = 'cut'
      return proxy.next('replies')
    })
    const held = await locks.lock('unsure').acquire()
    await within('the answer to its note is lost', unanswered)
    await proxy.heal()
    const notes = async (): Promise<number> => {
      const [rows] = await admin.query("SELECT id FROM holdfast_session WHERE line = 'm:unsure'")
      return (rows as object[]).length
    }
    expect(await notes()).toBe(1)
    await held.release()
    await eventually('the note is gone', async () => (await notes()) === 0)
  } finally {
    await proxy.heal()
    await proxy.stop()
  }
})

test('a replica takes over: lost at once, an error that passes while it takes no writes, then fences go on', async () => {
  const primary = await startMariadb({ binlog: true })
  const replica = await startMariadb({ replicaOf: primary })
  const operator = pool(replica.url)
  const owner = pool(primary.url)
  try {
    // Not the administrator, whom a server that is read-only lets write all the same.
    await owner.query("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'pw'; GRANT ALL ON holdfast.* TO app@'127.0.0.1'")
    const locks = await open(`mysql://app:pw@127.0.0.1:${primary.port},127.0.0.1:${replica.port}/holdfast`)
    const held = await locks.lock('failover').acquire({ ttl: TTL_MS })
    const floor = 'SELECT n FROM holdfast.holdfast_floor'
    await eventually('the replica has the floor of the fences', async () => {
      const [rows] = await operator.query(floor).catch(() => [[{ n: 0 }]])
      return BigInt((rows as { n: number }[])[0]?.n ?? 0) > held.fence
    })
    await primary.kill()
    await within('its signal', aborted(held.signal), 15_000)
    await expect(locks.lock('failover').tryAcquire()).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
    const waiting = locks.lock('failover').acquire({ ttl: TTL_MS })
    await operator.query('STOP SLAVE; SET GLOBAL read_only = 0')
    const next = await within('served by the replica', waiting)
    expect(next.fence).toBeGreaterThan(held.fence)
    await next.release()
  } finally {
    await Promise.all(clients.splice(0).map((client) => client.close()))
    await operator.end()
    owner.pool.end(() => undefined)
    await Promise.all([replica.stop(), primary.stop()])
  }
})

test('no connection is to be had: who has one goes on, who waits is served, and a newcomer is told', async () => {
  const [a, b] = [await open(), await open()]
  const held = await a.lock('full').acquire({ ttl: TTL_MS * 3 })
  const crowd = pool(server.url, 60)
  try {
    const taken = await Promise.allSettled(Array.from({ length: 45 }, () => crowd.getConnection()))
    expect(taken.some(({ status }) => status === 'rejected')).toBe(true)
    await expect(connect(`${server.url}?mode=session`)).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
    await held.renew()
    // There is no session to be had that could wait: the lock is asked for now and then.
    const waiting = b.lock('full').acquire({ ttl: TTL_MS * 3 })
    expect(await b.lock('full').tryAcquire()).toBeUndefined()
    expect(await held.release()).toBe(true)
    await (await within('the waiter is served', waiting)).release()
    for (const one of taken) if (one.status === 'fulfilled') one.value.release()
  } finally {
    await crowd.end()
  }
})

test('a server whose transactions are SERIALIZABLE by default', async () => {
  await admin.query("SET GLOBAL tx_isolation = 'SERIALIZABLE'")
  try {
    await takeTurns([await open(), await open()], 30)
  } finally {
    await admin.query("SET GLOBAL tx_isolation = 'REPEATABLE-READ'")
  }
})

test('a server in another time zone changes no age', async () => {
  await admin.query("SET GLOBAL time_zone = '+13:00'")
  try {
    const [a, b] = [await open(), await open()]
    const held = await a.lock('zone').acquire({ ttl: 60_000 })
    await eventually('it is seen', async () => (await b.view('zone')).length === 1)
    const [line] = await b.view('zone')
    expect(line?.tickets[0]?.ageMs).toBeGreaterThanOrEqual(0)
    expect(line?.tickets[0]?.ageMs).toBeLessThan(30_000)
    expect(held.remainingMs).toBeGreaterThan(30_000)
    expect(await held.release()).toBe(true)
  } finally {
    await admin.query("SET GLOBAL time_zone = 'SYSTEM'")
  }
})

test('the client’s wall clock is an hour off: its hold lasts as long as it says', async () => {
  await holdWithClockOff(`${server.url}?mode=session`, await open(), TTL_MS)
})
