import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { createPool } from 'mysql2/promise'
import { startMariadb } from '../../test/servers/index.js'
import { type Contender, type Extra, goal, type StoreBench } from '../contender.js'
import { growth } from '../growth.js'
import { holdfast, holdfastSession } from '../holdfast.js'
import { kept, longLine } from '../kept.js'
import { verrouOver } from '../verrou.js'

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

const verrou: Contender = {
  name: 'verrou (kysely)',
  role: 'peer',
  not: { hot: 'throws "Deadlock found" to its callers' },
  open: async (url) => {
    const { createPool: createCallbackPool } = await import('mysql2')
    const locks = await verrouOver('MysqlDialect', createCallbackPool({ uri: url, connectionLimit: POOL }))
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
        const lock = locks.lock(name)
        await until(() => lock.acquire())
        return () => until(() => lock.release())
      },
      close: () => locks.close(),
    }
  },
}

async function tickets(url: string): Promise<Extra> {
  const pool = createPool({ uri: url, connectionLimit: 1 })
  const { extra, after } = await growth(url, async () => {
    await pool.query('ANALYZE TABLE holdfast_ticket')
    const [[row]] = (await pool.query(
      `SELECT (SELECT COUNT(*) FROM holdfast_ticket) AS live,
         (SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces WHERE name LIKE '%/holdfast\\_ticket') AS bytes,
         (SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Innodb_history_list_length') AS history`,
    )) as unknown as [{ live: number; bytes: string; history: string }[]]
    // InnoDB does not count dead rows: the history that is not purged yet is what keeps them.
    const kB = Math.round(Number(row!.bytes) / 1_024)
    return { rows: row!.live, 'history not purged yet': Number(row!.history), kB }
  })
  await pool.end()
  return { ...extra, goals: [...(extra.goals ?? []), goal('rows left after 100,000 holds', after.rows, '≤', 0)] }
}

const store: StoreBench = {
  name: 'mysql',
  // As in production: a commit reaches the disk.
  start: () => startMariadb({ args: ['--innodb-flush-log-at-trx-commit=1', '--innodb-buffer-pool-size=128M'] }),
  contenders: [insertAndDelete, getLock, verrou, holdfast, holdfastSession],
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
  extras: async (url) => [await tickets(url), await kept(url), await longLine(url, 1_000)],
}
export default store
