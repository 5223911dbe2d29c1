import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'holdfast'
import { createPool } from 'mysql2/promise'
import { startMariadb } from '../../test/servers/index.js'
import { type Contender, type Extra, goal, type StoreBench } from '../contender.js'
import { holdfast } from '../holdfast.js'
import { kept, longLine } from '../kept.js'
import { importPeer } from '../peer.js'

const POOL = 10
/** Taken; and the deadlocks that the server finds between two such statements. */
const DUPLICATE = 1062
const DEADLOCK = 1213

/** One statement to take, one to release: a row with an expiry, on a pool of ten, tried again after a while. */
const insertAndDelete: Contender = {
  name: 'raw INSERT/DELETE',
  role: 'raw',
  open: async (url) => {
    const pool = createPool({ uri: url, connectionLimit: POOL })
    await pool.query(
      'CREATE TABLE IF NOT EXISTS raw_lock (name VARCHAR(255) PRIMARY KEY, owner CHAR(36), expires DATETIME(3))',
    )
    return {
      acquire: async (name) => {
        const owner = randomUUID()
        for (;;) {
          try {
            await pool.query('INSERT INTO raw_lock VALUES (?, ?, UTC_TIMESTAMP(3) + INTERVAL 30 SECOND)', [name, owner])
            return () => pool.query('DELETE FROM raw_lock WHERE name = ? AND owner = ?', [name, owner])
          } catch (error) {
            const { errno } = error as { errno?: number }
            if (errno !== DUPLICATE && errno !== DEADLOCK) throw error
            await sleep(10 * (0.5 + Math.random()))
          }
        }
      },
      close: () => pool.end(),
    }
  },
}

/** A connection of the pool for each hold: the server's own queue, and a connection for each waiter. */
const getLock: Contender = {
  name: 'raw GET_LOCK',
  role: 'raw',
  not: { drain: 'a pool of 10 holds 10 waiters', hot: 'a pool of 10 holds 10 waiters' },
  open: async (url) => {
    const pool = createPool({ uri: url, connectionLimit: POOL })
    return {
      acquire: async (name) => {
        const connection = await pool.getConnection()
        await connection.query('SELECT GET_LOCK(?, 60)', [name])
        return async () => {
          await connection.query('SELECT RELEASE_LOCK(?)', [name])
          connection.release()
        }
      },
      close: () => pool.end(),
    }
  },
}

interface Verrou {
  Verrou: new (
    config: object,
  ) => {
    createLock(name: string, ttl: string): { acquire(): Promise<unknown>; release(): Promise<void> }
  }
}
interface VerrouKysely {
  kyselyStore: (config: object) => object
}
interface KyselyModule {
  Kysely: new (config: object) => { destroy(): Promise<void> }
  MysqlDialect: new (config: object) => object
}

const verrou: Contender = {
  name: 'verrou (kysely)',
  role: 'peer',
  not: { hot: 'throws "Deadlock found" to its callers' },
  open: async (url) => {
    const { Kysely, MysqlDialect } = await importPeer<KyselyModule>('kysely')
    const { Verrou: VerrouClass } = await importPeer<Verrou>('@verrou/core')
    const { kyselyStore } = await importPeer<VerrouKysely>('@verrou/core/drivers/kysely')
    const { createPool: createCallbackPool } = await import('mysql2')
    const connection = new Kysely({
      dialect: new MysqlDialect({ pool: createCallbackPool({ uri: url, connectionLimit: POOL }) }),
    })
    const locks = new VerrouClass({ default: 'db', stores: { db: { driver: kyselyStore({ connection }) } } })
    // Its deadlocks go to the caller, who has no choice but to ask again.
    const until = async <T>(attempt: () => Promise<T>): Promise<T> => {
      for (;;) {
        try {
          return await attempt()
        } catch (error) {
          if (!/deadlock/i.test(String((error as Error).cause ?? error))) throw error
        }
      }
    }
    return {
      acquire: async (name) => {
        const lock = locks.createLock(name, '30s')
        await until(() => lock.acquire())
        return () => until(() => lock.release())
      },
      close: () => connection.destroy(),
    }
  },
}

const session: Contender = {
  ...holdfast,
  name: 'holdfast, session',
  open: (url) => holdfast.open(`${url}?mode=session`),
}

/** 100,000 holds on 10,000 names: what is left in the tables. */
async function growth(url: string): Promise<Extra> {
  const pool = createPool({ uri: url, connectionLimit: 1 })
  const locks = await connect(url)
  const look = async (): Promise<{ rows: number; kilobytes: number }> => {
    await pool.query('ANALYZE TABLE holdfast_ticket')
    const [[row]] = (await pool.query(
      `SELECT (SELECT COUNT(*) FROM holdfast_ticket) AS live,
         (SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces WHERE name LIKE '%/holdfast\\_ticket') AS bytes`,
    )) as unknown as [{ live: number; bytes: string }[]]
    return { rows: row!.live, kilobytes: Math.round(Number(row!.bytes) / 1_024) }
  }
  const round = async (): Promise<void> => {
    let next = 0
    const worker = async (): Promise<void> => {
      while (next < 10_000) await locks.lock(`growth:${next++}`).use(async () => {})
    }
    await Promise.all(Array.from({ length: 250 }, worker))
  }
  await round()
  await round()
  const before = await look()
  for (let i = 0; i < 8; i += 1) await round()
  const after = await look()
  await locks.close()
  await pool.end()
  return {
    title: '100,000 holds on 10,000 names',
    values: {
      'rows after 20,000': before.rows,
      'rows after 100,000': after.rows,
      'kB after 20,000': before.kilobytes,
      'kB after 100,000': after.kilobytes,
    },
    goals: [
      goal('rows left after 100,000 holds', after.rows, '≤', 0),
      goal('size of the table, 100,000 holds against 20,000', after.kilobytes / before.kilobytes, '≤', 1.5),
    ],
  }
}

const store: StoreBench = {
  name: 'mysql',
  // As in production: a commit reaches the disk.
  start: () => startMariadb({ args: ['--innodb-flush-log-at-trx-commit=1', '--innodb-buffer-pool-size=128M'] }),
  contenders: [insertAndDelete, getLock, verrou, holdfast, session],
  goals: (results) => {
    const raw = results['raw INSERT/DELETE']!
    const lock = results['raw GET_LOCK']!
    const peer = results['verrou (kysely)']!
    const ours = results['holdfast']!
    const theirs = results['holdfast, session']!
    return [
      goal('64 in flight against raw INSERT/DELETE', ours.inflight! / raw.inflight!, '≥', 3),
      goal('64 in flight against verrou', ours.inflight! / peer.inflight!, '≥', 4),
      goal('drain 2 × 50: × ideal', ours.drain!.ms / ours.drain!.idealMs, '≤', 5),
      goal('session mode, sequential against raw GET_LOCK', theirs.sequential! / lock.sequential!, '≥', 0.8),
      goal('session mode, 64 in flight against raw GET_LOCK', theirs.inflight! / lock.inflight!, '≥', 0.8),
      goal('hot key: most served : least served', ours.hot!.most / ours.hot!.least, '≤', 1.2),
      goal('session mode, hot key: most served : least served', theirs.hot!.most / theirs.hot!.least, '≤', 1.2),
    ]
  },
  extras: async (url) => [await growth(url), await kept(url), await longLine(url, 1_000)],
}
export default store
