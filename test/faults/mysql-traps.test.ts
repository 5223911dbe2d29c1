import { existsSync } from 'node:fs'
import { createConnection, createPool, type Connection } from 'mysql2/promise'
import { createPool as createCallbackPool } from 'mysql2'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { fenceGuard, mysql, schemaSql } from '../../src/backends/mysql/index.js'
import { Connections } from '../../src/backends/mysql/connections.js'
import { lender } from '../../src/backends/mysql/source.js'
import { tablesOf } from '../../src/backends/mysql/tables.js'
import { Tidy } from '../../src/backends/mysql/tidy.js'
import { openPort } from '../../src/conformance/port.js'
import { eventually, within } from '../../src/conformance/wait.js'
import { connect } from '../../src/connect.js'
import { migration } from '../../src/connect/mysql.js'
import { parseStoreUrl } from '../../src/connect/url.js'
import type { Standing } from '../../src/core/backend.js'
import { ConfigError, LockLostError, UnsupportedError } from '../../src/core/errors.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { freePorts, type Server, startMariadb, startProxy } from '../servers/index.js'

let server: Server
let admin: Connection
let database = 0
const closing: (() => unknown)[] = []

beforeAll(async () => {
  server = await startMariadb()
  admin = await createConnection({ uri: server.url, multipleStatements: true })
})
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})
afterAll(async () => {
  await admin.end()
  await server.stop()
})

/** A database of its own, and its URL. */
async function freshUrl(): Promise<string> {
  database += 1
  await admin.query(`CREATE DATABASE fresh${database}`)
  return server.url.replace('/holdfast', `/fresh${database}`)
}

async function openConnection(): Promise<Connection> {
  const connection = await createConnection({ uri: server.url, multipleStatements: true })
  closing.push(() => connection.end())
  return connection
}

async function open(url: string = server.url): Promise<Holdfast> {
  const client = await connect(url)
  closing.push(() => client.close())
  return client
}

async function port() {
  const opened = await openPort(
    mysql(() => createConnection({ uri: server.url, multipleStatements: true })),
    `trap${Math.random()}`.slice(0, 12),
  )
  closing.push(() => opened.backend.close())
  return opened
}

describe('the lease', () => {
  test('a renewal that is not committed yet counts: nobody is granted past it', async () => {
    const { backend, join, leave, tag } = await port()
    const line = { kind: 'mutex', name: 'late commit' } as const
    await backend.join([join(line, 'a', { ttlMs: 600 })])
    await backend.join([join(line, 'b')])
    // As a renewal does, but with its commit held up.
    const renewal = await openConnection()
    await renewal.query(
      `START TRANSACTION; UPDATE holdfast_ticket SET expires = UTC_TIMESTAMP(6) + INTERVAL 30 SECOND WHERE id = '${tag('a')}' AND expires > UTC_TIMESTAMP(6)`,
    )
    await new Promise((resolve) => setTimeout(resolve, 900))
    const [tried] = await backend.join([join(line, 'c', { wait: false })])
    expect(tried?.state === 'refused' || tried?.state === 'failed').toBe(true)
    await renewal.query('COMMIT')
    expect((await backend.join([join(line, 'd', { wait: false })]))[0]!.state).toBe('refused')
    expect((await backend.join([join(line, 'b')]))[0]!.state).toBe('waiting')
    expect(await backend.leave([leave(line, 'a')])).toEqual([true])
    await eventually('then it is granted', async () => (await backend.join([join(line, 'b')]))[0]!.state === 'granted')
  })

  test('the server’s time zone changes in the middle of a hold, as at the end of summer time', async () => {
    await admin.query("SET GLOBAL time_zone = '+02:00'")
    try {
      const a = await open()
      const held = await a.lock('zone').acquire({ ttl: 2_000 })
      for (const zone of ['+01:00', '-11:00', '+13:00']) {
        await admin.query(`SET GLOBAL time_zone = '${zone}'`)
        const b = await open()
        expect(await b.lock('zone').tryAcquire()).toBeUndefined()
        const [line] = await b.view('zone')
        expect(line!.tickets[0]!.remainingMs).toBeGreaterThan(0)
        expect(line!.tickets[0]!.remainingMs).toBeLessThanOrEqual(2_000)
        const lapsing = await b.lock('lapsing').acquire({ ttl: 300, renew: false })
        await within('it lapses in time', a.lock('lapsing').acquire({ ttl: 300 }), 10_000).then((lease) =>
          lease.release(),
        )
        expect(lapsing.state).toBe('lost')
      }
      await held.renew()
      expect(await held.release()).toBe(true)
    } finally {
      await admin.query("SET GLOBAL time_zone = 'SYSTEM'")
    }
  })

  test('what nobody comes across any more is tidied up, in slices', async () => {
    const { backend, join, leave } = await port()
    await backend.join(
      Array.from({ length: 100 }, (_, i) => join({ kind: 'mutex', name: `dust:${i}` }, `d${i}`, { ttlMs: 100 })),
    )
    await backend.leave([leave({ kind: 'mutex', name: 'dust' }, 'stone', { tombstoneMs: 100 })])
    await backend.join([join({ kind: 'mutex', name: 'dust:live' }, 'live')])
    const connections = new Connections(lender(openConnection), 1)
    const tidy = new Tidy(connections, tablesOf('holdfast_'))
    await eventually('all that has lapsed is gone', async () => {
      await tidy.slice()
      const [rows] = await admin.query(
        "SELECT COUNT(*) AS n FROM holdfast.holdfast_ticket WHERE line LIKE 'm:dust:%' OR gone = 2",
      )
      return (rows as { n: number }[])[0]!.n === 1
    })
  })

  test('a batch of one group, tries and waits of the same line grants it once', async () => {
    const { backend, join } = await port()
    const line = { kind: 'mutex', name: 'crowded' } as const
    const standings = await backend.join([
      join(line, 'w1'),
      join(line, 't1', { wait: false }),
      join(line, 'g1', { wait: false, group: 'g' }),
      join({ kind: 'mutex', name: 'crowded too' }, 'g2', { wait: false, group: 'g' }),
      join(line, 't2', { wait: false }),
      join(line, 'w2'),
    ])
    const granted = standings.filter(({ state }) => state === 'granted')
    const ofLine = [0, 1, 2, 4, 5].filter((i) => standings[i]!.state === 'granted')
    expect(ofLine).toHaveLength(1)
    expect(granted.length).toBe(standings[2]!.state === 'granted' ? 2 : 1)
  })
})

test('a ticket whose leave overtakes the answer to its join is not watched for ever', async () => {
  const proxy = await startProxy(server)
  closing.push(() => proxy.stop())
  const holding = await port()
  const uri = `mysql://root:secret@127.0.0.1:${proxy.port}/holdfast`
  const { backend, join, leave } = await openPort(
    mysql(() => createConnection({ uri, multipleStatements: true })),
    'overtaken',
  )
  closing.push(() => backend.close())
  const line = { kind: 'mutex', name: 'overtaken' } as const
  await holding.backend.join([holding.join(line, 'holder')])
  // With one that waits in that line, where the next stands is asked in the same packet.
  await backend.join([join(line, 'before')])
  proxy.replies.fault = 'hold'
  const joining = backend.join([join(line, 'w')])
  await eventually('it stands', async () => (await holding.backend.view('overtaken'))[0]?.tickets.length === 3)
  const leaving = backend.leave([leave(line, 'w', { tombstoneMs: 60_000 })])
  await proxy.heal()
  expect((await joining)[0]!.state).toBe('waiting')
  expect(await leaving).toEqual([true])
  expect(await backend.leave([leave(line, 'before')])).toEqual([true])
  const before = proxy.requests.chunks
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  // A watch looks ten times a second at least; something else may be sent now and then.
  expect(proxy.requests.chunks - before).toBeLessThan(5)
})

describe('a long line', () => {
  const line = { kind: 'mutex', name: 'long' } as const
  const ids = Array.from({ length: 30 }, (_, i) => `l${i}`)

  test('everyone is told how many stand ahead, who asks with many or alone', async () => {
    const { backend, join, renew } = await port()
    const joined = await backend.join(ids.map((id) => join(line, id)))
    expect(joined.map(aheadOf)).toEqual(ids.map((_, i) => i))
    const other = { kind: 'mutex', name: 'other' } as const
    await backend.join([join(other, 'o1')])
    const renewed = await backend.renew([renew(other, 'o1'), ...ids.map((id) => renew(line, id))])
    expect(renewed.map(aheadOf)).toEqual([0, ...ids.map((_, i) => i)])
    const [alone] = await backend.renew([renew(line, 'l7')])
    expect(aheadOf(alone!)).toBe(7)
  })

  test('a name that is locked in a batch of others holds up none of them', async () => {
    const { backend, join } = await port()
    const stuck = { kind: 'mutex', name: 'stuck' } as const
    const holder = await openConnection()
    await holder.query('START TRANSACTION')
    await holder.query("SELECT id FROM holdfast_stripe WHERE id = CRC32('m:stuck') & 65535 FOR UPDATE")
    const joining = backend.join([join({ kind: 'mutex', name: 'free' }, 'f1'), join(stuck, 's1')])
    await eventually('the other stands', async () => (await backend.view('free')).length === 1)
    expect(await backend.view('stuck')).toEqual([])
    await holder.query('COMMIT')
    expect((await joining).map(({ state }) => state)).toEqual(['granted', 'granted'])
  })
})

function aheadOf(standing: Standing): number {
  if (standing.state === 'granted') return 0
  return standing.state === 'waiting' ? standing.ahead : -1
}

describe('the schema', () => {
  test('ten clients that start at once make it once', async () => {
    const url = await freshUrl()
    const clients = await Promise.all(Array.from({ length: 10 }, () => open(url)))
    const fences = await Promise.all(clients.map((client) => client.lock('first').use(async (lease) => lease.fence)))
    expect(new Set(fences).size).toBe(10)
    const [rows] = await admin.query(`SELECT COUNT(*) AS n FROM fresh${database}.holdfast_stripe`)
    expect((rows as { n: number }[])[0]!.n).toBe(65_536)
  })

  test('a user who may not create tables is told what to run, and then needs no more', async () => {
    const url = await freshUrl()
    await admin.query(
      `CREATE USER plain@'127.0.0.1' IDENTIFIED BY 'pw'; GRANT SELECT, INSERT, UPDATE, DELETE ON fresh${database}.* TO plain@'127.0.0.1'`,
    )
    const plain = url.replace('root:secret', 'plain:pw')
    for (const mode of ['lease', 'session']) {
      await expect(connect(`${plain}?mode=${mode}`)).rejects.toThrow(/migrate --print/)
    }
    const migrate = await migration(parseStoreUrl(url))
    expect(migrate.print()).toBe(schemaSql())
    await admin.query(`USE fresh${database}; ${migrate.print()}`)
    await migrate.run()
    for (const mode of ['lease', 'session']) {
      const locks = await open(`${plain}?mode=${mode}`)
      await locks.lock('plain').use(async () => undefined)
    }
  })

  test('a newer schema is not touched', async () => {
    const url = await freshUrl()
    await (await open(url)).lock('x').use(async () => undefined)
    await admin.query(`UPDATE fresh${database}.holdfast_schema SET version = 2`)
    await expect(connect(url)).rejects.toMatchObject({ code: 'BACKEND', retryable: false })
  })

  test('a prefix gives lines of their own', async () => {
    const [a, b] = [await open(), await open(`${server.url}?prefix=other_`)]
    const [one, two] = [await a.lock('same').tryAcquire(), await b.lock('same').tryAcquire()]
    expect(one !== undefined && two !== undefined).toBe(true)
    const [c, d] = [await open(`${server.url}?mode=session`), await open(`${server.url}?mode=session&prefix=other_`)]
    const [three, four] = [await c.lock('same').tryAcquire(), await d.lock('same').tryAcquire()]
    expect(three !== undefined && four !== undefined).toBe(true)
    await expect(connect(`${server.url}?prefix=x';--`)).rejects.toMatchObject({ code: 'CONFIG' })
  })
})

describe('a pool of the application’s', () => {
  test('is used and given back as it was', async () => {
    for (const pool of [createPool({ uri: server.url, connectionLimit: 3, multipleStatements: true })]) {
      closing.push(() => pool.end())
      const locks = new Holdfast(mysql(pool))
      await locks.lock('pooled').use(async () => undefined)
      await Promise.all(Array.from({ length: 30 }, () => locks.lock('pooled').use(async () => undefined)))
      await locks.close()
      const [rows] = await pool.query(
        'SELECT @@tx_isolation AS iso, @@innodb_lock_wait_timeout AS wait, @@autocommit AS auto',
      )
      expect((rows as object[])[0]).toEqual({ iso: 'REPEATABLE-READ', wait: 50, auto: 1 })
    }
  })

  test('whose user may not create tables keeps no lock that an administrator would wait for', async () => {
    const url = await freshUrl()
    await admin.query(
      `CREATE USER pooled@'127.0.0.1' IDENTIFIED BY 'pw'; GRANT SELECT, INSERT, UPDATE, DELETE ON fresh${database}.* TO pooled@'127.0.0.1'`,
    )
    const uri = url.replace('root:secret', 'pooled:pw')
    const pool = createPool({ uri, connectionLimit: 2, multipleStatements: true })
    closing.push(() => pool.end())
    await expect(new Holdfast(mysql(pool)).ready()).rejects.toThrow(/migrate --print/)
    const [rows] = await admin.query(
      `SELECT IS_USED_LOCK(CONCAT('holdfast:', MD5('fresh${database}/holdfast_'))) AS session`,
    )
    expect(rows).toEqual([{ session: null }])
    await within('the tables are made', (await migration(parseStoreUrl(url))).run())
    const locks = new Holdfast(mysql(pool))
    closing.unshift(() => locks.close())
    await locks.lock('made').use(async () => undefined)
  })

  test('that is full is said to be, and the acquire goes on when it is not', async () => {
    const pool = createPool({ uri: server.url, connectionLimit: 2, multipleStatements: true })
    closing.push(() => pool.end())
    const locks = new Holdfast(mysql(pool))
    closing.push(() => locks.close())
    await locks.lock('warm').use(async () => undefined)
    const taken = [await pool.getConnection(), await pool.getConnection()]
    const waiting = locks.lock('full pool').acquire()
    await expect(locks.lock('full pool').tryAcquire()).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
    for (const connection of taken) connection.release()
    await (await within('it goes on', waiting)).release()
  })

  test('without autocommit is refused with what to do; connections of our own set it', async () => {
    await admin.query('SET GLOBAL autocommit = 0')
    try {
      const pool = createPool({ uri: server.url, connectionLimit: 1, multipleStatements: true })
      closing.push(() => pool.end())
      await expect(new Holdfast(mysql(pool)).ready()).rejects.toThrow(/autocommit/)
      // Also when the application has left a transaction open there, as happens without autocommit.
      await pool.query('SELECT COUNT(*) FROM holdfast_stripe')
      await expect(new Holdfast(mysql(pool)).ready()).rejects.toMatchObject({ code: 'CONFIG' })
      await expect(new Holdfast(mysql(pool)).ready()).rejects.toThrow(/autocommit/)
      for (const mode of ['lease', 'session']) {
        const locks = await open(`${server.url}?mode=${mode}`)
        await locks.lock('autocommit').use(async () => undefined)
      }
    } finally {
      await admin.query('SET GLOBAL autocommit = 1')
    }
  })

  test('without multipleStatements is refused with what to do; so is one for session mode', async () => {
    const pool = createCallbackPool({ uri: server.url, connectionLimit: 1 })
    closing.push(() => pool.promise().end())
    await expect(new Holdfast(mysql(pool)).ready()).rejects.toThrow(/multipleStatements/)
    expect(() => mysql(pool, { mode: 'session' })).toThrow(/connections of its own/)
  })
})

test('numbers that cannot be meant are refused', () => {
  const source = openConnection
  for (const poll of [{ minMs: 0 }, { minMs: Number.NaN }, { maxMs: -1 }, { minMs: 20, maxMs: 10 }, { maxMs: 1e9 }]) {
    expect(() => mysql(source, { poll }), JSON.stringify(poll)).toThrow(ConfigError)
  }
  for (const poll of [{ minMs: 200 }, { maxMs: 1 }, { minMs: 5, maxMs: 5 }]) {
    expect(() => mysql(source, { poll }), JSON.stringify(poll)).not.toThrow()
  }
  for (const connections of [0, 1.5, Number.NaN, 1_001, 1e9]) {
    expect(() => mysql(source, { connections }), String(connections)).toThrow(/from 1 to 1000/)
  }
})

test('a node of a Galera cluster is refused in both modes', async () => {
  const provider = '/usr/lib/galera/libgalera_smm.so'
  expect(existsSync(provider), 'the package galera-4 comes with mariadb-server').toBe(true)
  const [listen, ist] = await freePorts(2)
  const galera = await startMariadb({
    args: [
      '--wsrep-on=ON',
      `--wsrep-provider=${provider}`,
      '--wsrep-cluster-address=gcomm://',
      '--wsrep-node-address=127.0.0.1',
      '--wsrep-sst-method=rsync',
      '--binlog-format=ROW',
      '--innodb-autoinc-lock-mode=2',
      `--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:${listen};ist.recv_bind=127.0.0.1:${ist}`,
    ],
  })
  try {
    await expect(connect(galera.url)).rejects.toThrow(UnsupportedError)
    await expect(connect(`${galera.url}?mode=session`)).rejects.toThrow(/Galera/)
  } finally {
    await galera.stop()
  }
})

test('fenceGuard refuses the write of a holder that was paused, also from an old snapshot', async () => {
  const locks = await open()
  const [late, next] = [await openConnection(), await openConnection()]
  await admin.query(
    'CREATE TABLE holdfast.account (id INT PRIMARY KEY, balance INT); INSERT INTO holdfast.account VALUES (1, 100)',
  )
  const old = await locks.lock('account').acquire({ ttl: 300, renew: false })
  // Its transaction, and with it its snapshot, begins before the other's.
  await late.query('START TRANSACTION; SELECT * FROM holdfast.account')
  await within('the old hold ends', new Promise((resolve) => old.signal.addEventListener('abort', resolve)))
  await locks.lock('account').use(async (lease) => {
    await next.beginTransaction()
    await fenceGuard(next, 'account:1', lease.fence)
    await next.query('UPDATE holdfast.account SET balance = 50')
    await next.commit()
  })
  await expect(fenceGuard(late, 'account:1', old.fence)).rejects.toThrow(LockLostError)
  await late.rollback()
  const [rows] = await admin.query('SELECT balance FROM holdfast.account')
  expect((rows as { balance: number }[])[0]!.balance).toBe(50)
})
