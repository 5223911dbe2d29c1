import { once } from 'node:events'
import { type ChildProcess, spawn } from 'node:child_process'
import type { Pool } from 'mysql2/promise'
import { createPool } from 'mysql2/promise'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { eventually, within } from '../../src/conformance/wait.js'
import { connect } from '../../src/connect.js'
import { BackendError } from '../../src/core/errors.js'
import type { Holdfast } from '../../src/core/holdfast.js'
import { type Server, startMariadb, startProxy } from '../servers/index.js'
import { aborted } from './aborted.js'
import { holdWithClockOff } from './off-clock.js'
import { takeTurns } from './turns.js'

const TTL_MS = 2_000

let server: Server
let admin: Pool
const clients: Holdfast[] = []
const children: ChildProcess[] = []

beforeAll(async () => {
  // As in production: a commit reaches the disk, so kill -9 may not lose one.
  server = await startMariadb({ args: ['--innodb-flush-log-at-trx-commit=1', '--max-connections=40'] })
  admin = pool(server.url)
})
afterEach(async () => {
  // Its whole group: what starts it under another clock stays in between.
  for (const { pid, exitCode } of children.splice(0))
    if (pid !== undefined && exitCode === null) process.kill(-pid, 'SIGKILL')
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
  const client = await connect(url)
  clients.push(client)
  return client
}

/** Ends every connection but the one that asks. */
async function killConnections(): Promise<number> {
  const [rows] = await admin.query(
    "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'",
  )
  const ids = (rows as { id: number }[]).map(({ id }) => id)
  for (const id of ids) await admin.query(`KILL ${id}`).catch(() => undefined)
  return ids.length
}

describe('lease mode', () => {
  test.each([
    ['a restart', () => server.shutdown()],
    ['kill -9', () => server.kill()],
  ])('%s of the server loses no hold, no place in line and no fence', async (_, end) => {
    const [a, b, c] = [await open(), await open(), await open()]
    const held = await a.lock('restart').acquire({ ttl: 20_000 })
    const second = b.lock('restart').acquire({ ttl: 20_000 })
    await eventually('it waits', async () => (await c.view('restart'))[0]?.tickets.length === 2)
    await end()
    await server.start()
    held.assertHeld()
    await eventually('its renewal goes through again', async () =>
      held.renew().then(
        () => true,
        () => false,
      ),
    )
    expect(await c.lock('restart').tryAcquire()).toBeUndefined()
    expect(await held.release()).toBe(true)
    const next = await within('the waiter is served', second)
    expect(next.fence).toBeGreaterThan(held.fence)
    await next.release()
  })

  test('a fence is never given twice, though kill -9 comes right after it', async () => {
    let last = 0n
    for (let round = 0; round < 2; round += 1) {
      const locks = await open()
      for (let i = 0; i < 20; i += 1) {
        const lease = await locks.lock('fence').acquire()
        expect(lease.fence).toBeGreaterThan(last)
        last = lease.fence
        await lease.release()
      }
      await locks.close()
      await server.kill()
      await server.start()
    }
    expect((await (await open()).lock('fence').acquire()).fence).toBeGreaterThan(last)
  })

  test('all connections are killed again and again: nobody who holds or waits hears of it', async () => {
    const [a, b] = [await open(), await open()]
    const held = await a.lock('killed').acquire({ ttl: TTL_MS * 3 })
    const waiting = b.lock('killed').acquire({ ttl: TTL_MS * 3 })
    for (let i = 0; i < 3; i += 1) {
      expect(await killConnections()).toBeGreaterThan(0)
      await eventually('a renewal goes through', async () =>
        held.renew().then(
          () => true,
          () => false,
        ),
      )
    }
    expect(held.state).toBe('held')
    await held.release()
    await (await within('the waiter is served', waiting)).release()
  })

  test('the server is not to be reached: lost at its own deadline, and the waiter is served when it is back', async () => {
    const proxy = await startProxy(server)
    try {
      const [a, b] = [await open(`mysql://root:secret@127.0.0.1:${proxy.port}/holdfast`), await open()]
      const held = await a.lock('away').acquire({ ttl: TTL_MS })
      proxy.blackhole()
      await within('its signal', aborted(held.signal), TTL_MS * 5)
      expect(held.state).toBe('lost')
      const next = await within('another has it', b.lock('away').acquire({ ttl: TTL_MS }))
      expect(next.fence).toBeGreaterThan(held.fence)
      const waiting = a.lock('away').acquire({ ttl: TTL_MS })
      await proxy.heal()
      await next.release()
      await (await within('the one that was away is served', waiting)).release()
    } finally {
      await proxy.stop()
    }
  })

  test('a connection whose set-up has no answer is given up, and renewals go on with the next', async () => {
    const proxy = await startProxy(server)
    try {
      const locks = await open(`mysql://root:secret@127.0.0.1:${proxy.port}/holdfast`)
      const held = await locks.lock('set-up').acquire({ ttl: 60_000 })
      const setUp = proxy.next('requests', 'innodb_lock_wait_timeout').then(() => {
        proxy.replies.fault = 'drop'
        return proxy.next('replies')
      })
      proxy.cutNow()
      const renewed = held.renew().catch(() => undefined)
      await within('the answer to its set-up is lost', setUp)
      await proxy.heal()
      await renewed
      await eventually('a renewal goes through', async () =>
        held.renew().then(
          () => true,
          () => false,
        ),
      )
      expect(await held.release()).toBe(true)
    } finally {
      await proxy.stop()
    }
  })

  test('of several hosts, one that falls silent after the handshake is passed over and let go of', async () => {
    const proxy = await startProxy(server)
    try {
      const asked = proxy.next('requests', 'read_only').then(() => {
        proxy.replies.fault = 'drop'
        return proxy.next('replies')
      })
      const opened = open(`mysql://root:secret@127.0.0.1:${proxy.port},127.0.0.1:${server.port}/holdfast`)
      await within('the answer is lost', asked)
      expect(proxy.open).toBe(1)
      await eventually('it is let go of', () => proxy.open === 0)
      await proxy.heal()
      const locks = await within('the other host is used', opened)
      await locks.lock('hosts').use(async () => undefined)
    } finally {
      await proxy.stop()
    }
  })

  test('a reply that is lost is not a lock that is lost, and leaves no zombie', async () => {
    const proxy = await startProxy(server)
    try {
      const [a, b] = [await open(`mysql://root:secret@127.0.0.1:${proxy.port}/holdfast`), await open()]
      await (await a.lock('warm').acquire()).release()
      const joined = proxy.next('requests', 'reply')
      const first = a.lock('reply').acquire({ ttl: TTL_MS * 3 })
      proxy.replies.fault = 'drop'
      await joined
      await eventually('it stands', async () => (await b.view('reply')).length === 1)
      proxy.cutNow()
      await proxy.heal()
      const lease = await within('asked again', first)
      const [line] = await b.view('reply')
      expect(line!.tickets.map(({ fence }) => fence)).toEqual([lease.fence])
      await lease.release()
      expect(await b.view('reply')).toEqual([])
    } finally {
      await proxy.stop()
    }
  })

  test('a name whose row somebody keeps locked stalls no other, and is served when it is free', async () => {
    const locks = await open()
    await (await locks.lock('stalled').acquire()).release()
    const other = await admin.getConnection()
    await other.query(
      "START TRANSACTION; SELECT id FROM holdfast_stripe WHERE id = CRC32('m:stalled') & 65535 FOR UPDATE",
    )
    const stalled = locks.lock('stalled').acquire()
    for (let i = 0; i < 50; i += 1) await (await locks.lock(`other:${i}`).acquire()).release()
    expect(await Promise.race([stalled.then(() => 'served'), Promise.resolve('waiting')])).toBe('waiting')
    await other.query('ROLLBACK')
    other.release()
    await (await within('it is served', stalled)).release()
  })

  test('deadlocks with others are fought out inside: no caller hears of one', async () => {
    const locks = await open()
    const names = Array.from({ length: 8 }, (_, i) => `cross:${i}`)
    const leases = await Promise.all(names.map((name) => locks.lock(name).acquire({ ttl: TTL_MS * 5 })))
    const ids = `SELECT id FROM holdfast_ticket WHERE line LIKE 'm:cross:%' ORDER BY id`
    const deadlocks = async (): Promise<number> => {
      const [rows] = await admin.query("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
      return Number((rows as { Value: string }[])[0]!.Value)
    }
    const before = await deadlocks()
    // The rows that our renewals lock in one order, in any other.
    const other = pool(server.url)
    const [rows] = await other.query(ids)
    const updates = (rows as { id: Buffer }[]).map(
      ({ id }) => `UPDATE holdfast_ticket SET weight = weight + 0 WHERE id = x'${id.toString('hex')}'`,
    )
    expect(updates).toHaveLength(8)
    const stop = new AbortController()
    const cross = (async () => {
      while (!stop.signal.aborted) {
        const shuffled = updates.toSorted(() => Math.random() - 0.5).join('; DO SLEEP(0.003); ')
        await other.query(`START TRANSACTION; ${shuffled}; ROLLBACK`).catch(() => other.query('ROLLBACK'))
      }
    })()
    await eventually('a deadlock was found', async () => {
      await Promise.all(leases.map((lease) => lease.renew()))
      return (await deadlocks()) > before
    })
    stop.abort()
    await cross
    await other.end()
    for (const lease of leases) expect(await lease.release()).toBe(true)
  })

  test('a process stopped in full swing keeps no row locked', async () => {
    const locks = await open()
    const busy = run(`
      const worker = async (w) => { for (;;) await (await locks.lock('swing:' + (w % 40)).acquire({ ttl: ${TTL_MS} })).release() }
      await Promise.all([Promise.race(Array.from({ length: 80 }, (_, w) => worker(w))), console.log('busy')])`)
    await once(busy.stdout!, 'data')
    for (let i = 0; i < 4; i += 1) {
      await new Promise((resolve) => setTimeout(resolve, 20 + Math.random() * 30))
      busy.kill('SIGSTOP')
      // Not one of these names is free for sure, but each is within the ttl of what was stopped.
      const all = Array.from({ length: 40 }, async (_, n) => {
        await (await locks.lock(`swing:${n}`).acquire({ ttl: TTL_MS })).release()
      })
      await within('every name is served', Promise.all(all))
      busy.kill('SIGCONT')
    }
  })

  test('a replica takes over: lost in time while it takes no writes, then the line and the fences go on there', async () => {
    const primary = await startMariadb({ binlog: true })
    const replica = await startMariadb({ replicaOf: primary })
    const operator = pool(replica.url)
    const owner = pool(primary.url)
    try {
      // Not the administrator, whom a server that is read-only lets write all the same.
      await owner.query("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'pw'; GRANT ALL ON holdfast.* TO app@'127.0.0.1'")
      const locks = await open(`mysql://app:pw@127.0.0.1:${primary.port},127.0.0.1:${replica.port}/holdfast`)
      const held = await locks.lock('failover').acquire({ ttl: TTL_MS })
      await eventually('the replica has it', async () => {
        const [rows] = await operator
          .query('SELECT COUNT(*) AS n FROM holdfast.holdfast_ticket')
          .catch(() => [[{ n: 0 }]])
        return (rows as { n: number }[])[0]!.n === 1
      })
      await primary.kill()
      await within('its signal', aborted(held.signal), TTL_MS * 5)
      await expect(locks.lock('failover').tryAcquire()).rejects.toThrow(BackendError)
      await expect(locks.lock('failover').tryAcquire()).rejects.toMatchObject({ retryable: true })
      const waiting = locks.lock('failover').acquire({ ttl: TTL_MS })
      await operator.query('STOP SLAVE; SET GLOBAL read_only = 0')
      const next = await within('served by the replica', waiting)
      expect(next.fence).toBeGreaterThan(held.fence)
      await next.release()
    } finally {
      await operator.end()
      owner.pool.end(() => undefined)
      await Promise.all([replica.stop(), primary.stop()])
    }
  })

  test('no connection is to be had: a clear error at once, and who has one goes on', async () => {
    const locks = await open()
    const held = await locks.lock('full').acquire({ ttl: TTL_MS * 3 })
    const crowd = pool(server.url, 60)
    try {
      const taken = await Promise.allSettled(Array.from({ length: 45 }, () => crowd.getConnection()))
      expect(taken.some(({ status }) => status === 'rejected')).toBe(true)
      await expect(connect(server.url)).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
      await held.renew()
      expect(await held.release()).toBe(true)
      for (const one of taken) if (one.status === 'fulfilled') one.value.release()
    } finally {
      await crowd.end()
    }
    await eventually('room again', async () =>
      connect(server.url).then(
        (client) => client.close().then(() => true),
        () => false,
      ),
    )
  })

  test('a wrong password, database or host is said at once', async () => {
    const said = async (url: string) =>
      await within(
        'an answer',
        connect(url).then(String, (error: unknown) => error),
        10_000,
      )
    const wrong = await said(server.url.replace('secret', 'guess'))
    expect(wrong).toMatchObject({ code: 'BACKEND', retryable: false })
    expect(String(wrong)).toMatch(/user and password/)
    expect(String(wrong)).not.toContain('guess')
    expect(await said(server.url.replace('/holdfast', '/nowhere'))).toMatchObject({ code: 'BACKEND', retryable: false })
    expect(await said('mysql://root@127.0.0.1:1/holdfast')).toMatchObject({ code: 'BACKEND', retryable: true })
    expect(await said('mysql://root@127.0.0.1:1')).toMatchObject({ code: 'CONFIG' })
  })

  test('the client’s wall clock is an hour off: leases last as long as they say', async () => {
    await holdWithClockOff(server.url, await open(), TTL_MS)
  })

  test('a server whose transactions are SERIALIZABLE by default', async () => {
    await admin.query("SET GLOBAL tx_isolation = 'SERIALIZABLE'")
    try {
      await takeTurns([await open(), await open()], 30)
    } finally {
      await admin.query("SET GLOBAL tx_isolation = 'REPEATABLE-READ'")
    }
  })

  test('a limit of the server’s on statements ends no hold and no wait', async () => {
    await admin.query('SET GLOBAL max_statement_time = 0.5')
    try {
      const [a, b] = [await open(), await open()]
      const held = await a.lock('limit').acquire({ ttl: TTL_MS })
      const waiting = b.lock('limit').acquire({ ttl: TTL_MS })
      await new Promise((resolve) => setTimeout(resolve, TTL_MS))
      expect(held.state).toBe('held')
      await held.release()
      await (await within('it is served', waiting)).release()
    } finally {
      await admin.query('SET GLOBAL max_statement_time = 0')
    }
  })
})

/** A process with a client of its own that runs a few lines. */
function run(script: string, before: readonly string[] = [], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const dist = new URL('../../dist/index.js', import.meta.url).href
  const text = `import { connect } from '${dist}'; const locks = await connect(process.argv[1]); const alive = setInterval(() => {}, 1000); ${script}`
  const [file, ...args] = [...before, process.execPath, '--input-type=module', '-e', text, server.url]
  const child = spawn(file, args, {
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  })
  children.push(child)
  return child
}
