import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { startPostgres } from '../../test/servers/index.js'
import { type Contender, type Extra, goal, type StoreBench } from '../contender.js'
import { growth } from '../growth.js'
import { holdfast, holdfastSession } from '../holdfast.js'
import { kept, longLine } from '../kept.js'
import { verrouOver } from '../verrou.js'

const POOL = 10
const UNIQUE_VIOLATION = '23505'

/** One statement to take, one to release: a row with an expiry, on a pool of ten, tried again after a while. */
const insertAndDelete: Contender = {
  name: 'raw INSERT/DELETE',
  role: 'raw',
  open: async (url) => {
    const pool = new pg.Pool({ connectionString: url, max: POOL })
    await pool
      .query('CREATE TABLE IF NOT EXISTS raw_lock (name text PRIMARY KEY, owner text, expires timestamptz)')
      .catch(() => undefined)
    return {
      acquire: async (name) => {
        const owner = randomUUID()
        for (;;) {
          try {
            await pool.query("INSERT INTO raw_lock VALUES ($1, $2, now() + interval '30 s')", [name, owner])
            return () => pool.query('DELETE FROM raw_lock WHERE name = $1 AND owner = $2', [name, owner])
          } catch (error) {
            if ((error as { code?: string }).code !== UNIQUE_VIOLATION) throw error
            await sleep(10 * (0.5 + Math.random()))
          }
        }
      },
      close: () => pool.end(),
    }
  },
}

/** A connection of the pool for each hold: the server's own queue, and a connection for each waiter. */
const advisory: Contender = {
  name: 'raw pg_advisory_lock',
  role: 'raw',
  not: { drain: 'a pool of 10 holds 10 waiters', hot: 'a pool of 10 holds 10 waiters' },
  open: async (url) => {
    const pool = new pg.Pool({ connectionString: url, max: POOL })
    return {
      acquire: async (name) => {
        const client = await pool.connect()
        await client.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [name])
        return async () => {
          await client.query('SELECT pg_advisory_unlock(hashtextextended($1, 0))', [name])
          client.release()
        }
      },
      close: () => pool.end(),
    }
  },
}

const verrou: Contender = {
  name: 'verrou (kysely)',
  role: 'peer',
  open: async (url) => {
    const locks = await verrouOver('PostgresDialect', new pg.Pool({ connectionString: url, max: POOL }))
    return {
      acquire: async (name) => {
        const lock = locks.lock(name)
        await lock.acquire()
        return () => lock.release()
      },
      close: () => locks.close(),
    }
  },
}

async function tickets(url: string): Promise<Extra> {
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  const { extra } = await growth(url, async () => {
    await pool.query('SELECT pg_stat_clear_snapshot()')
    const { rows } = await pool.query<{ live: string; dead: string; bytes: string }>(
      `SELECT (SELECT count(*) FROM holdfast.ticket) AS live, n_dead_tup AS dead,
         pg_total_relation_size('holdfast.ticket') AS bytes
       FROM pg_stat_user_tables WHERE schemaname = 'holdfast' AND relname = 'ticket'`,
    )
    const [row] = rows
    return { rows: Number(row?.live), 'dead rows': Number(row?.dead), kB: Math.round(Number(row?.bytes) / 1_024) }
  })
  await pool.end()
  return extra
}

const store: StoreBench = {
  name: 'postgres',
  // As in production: a commit reaches the disk.
  start: () => startPostgres({ fsync: true, settings: { shared_buffers: '128MB' } }),
  contenders: [insertAndDelete, advisory, verrou, holdfast, holdfastSession],
  goals: (results) => {
    const raw = results['raw INSERT/DELETE']!
    const lock = results['raw pg_advisory_lock']!
    const peer = results['verrou (kysely)']!
    const ours = results['holdfast']!
    const theirs = results['holdfast, session']!
    return [
      goal('64 in flight against raw INSERT/DELETE', ours.inflight! / raw.inflight!, '≥', 5),
      goal('64 in flight against verrou', ours.inflight! / peer.inflight!, '≥', 8),
      goal('sequential against raw INSERT/DELETE', ours.sequential! / raw.sequential!, '≥', 0.9),
      goal('drain 2 × 50: × ideal', ours.drain!.ms / ours.drain!.idealMs, '≤', 2.5),
      goal('drain 2 × 50: times faster than verrou', peer.drain!.ms / ours.drain!.ms, '≥', 5),
      goal('session mode, sequential against raw pg_advisory_lock', theirs.sequential! / lock.sequential!, '≥', 0.8),
      goal('session mode, 64 in flight against raw pg_advisory_lock', theirs.inflight! / lock.inflight!, '≥', 0.8),
      goal('hot key: most served : least served', ours.hot!.most / ours.hot!.least, '≤', 1.2),
    ]
  },
  extras: async (url) => [await tickets(url), await kept(url), await longLine(url, 1_000)],
}
export default store
