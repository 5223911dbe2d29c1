import pg from 'pg'
import type { Held, Recipe } from '../recipe.js'

const TABLE = 'CREATE TABLE IF NOT EXISTS row_lock (name text PRIMARY KEY)'
const LOCK_NOT_AVAILABLE = '55P03'

const recipe: Recipe = {
  name: 'db-select-for-update',
  title: 'PostgreSQL: SELECT … FOR UPDATE',
  store: 'postgres',
  story: 'The pessimistic lock: a transaction locks a row for as long as the work takes, and commits when it is done.',
  offers: { ttl: false, blocking: true, reentrant: false },
  async open(env) {
    const { urls } = env
    const pool = new pg.Pool({ connectionString: urls[0]!, max: 4, connectionTimeoutMillis: 2_000 })
    // An idle connection that broke is replaced by the pool.
    pool.on('error', (error) => console.error(error.message))
    await createTable(pool)

    async function lock(name: string, begin: string, select: string): Promise<Held | undefined> {
      await pool.query('INSERT INTO row_lock (name) VALUES ($1) ON CONFLICT DO NOTHING', [name])
      await env.step('the row is there')
      const client = await pool.connect()
      // The transaction has ended with its connection; the work outside of the database is not told.
      client.on('error', (error) => console.error(error.message))
      try {
        await client.query(begin)
        await client.query(select, [name])
        return { believes: () => true, release: async () => await commit(client) }
      } catch (error) {
        const refused = (error as { code?: string }).code === LOCK_NOT_AVAILABLE
        if (refused) await client.query('ROLLBACK')
        client.release(!refused)
        if (refused) return undefined
        throw error
      }
    }

    return {
      tryAcquire: async (name) => await lock(name, 'BEGIN', 'SELECT 1 FROM row_lock WHERE name = $1 FOR UPDATE NOWAIT'),
      acquire: async (name, waitMs) => {
        const begin = `BEGIN; SET LOCAL lock_timeout = ${Math.max(1, Math.round(waitMs))}`
        return await lock(name, begin, 'SELECT 1 FROM row_lock WHERE name = $1 FOR UPDATE')
      },
      close: async () => await pool.end(),
    }
  },
}

async function commit(client: pg.PoolClient): Promise<boolean> {
  try {
    await client.query('COMMIT')
    client.release()
    return true
  } catch (error) {
    client.release(true)
    throw error
  }
}

/** Two that make the same table at once collide in the catalogue, IF NOT EXISTS or not; the second try finds it. */
async function createTable(pool: pg.Pool): Promise<void> {
  try {
    await pool.query(TABLE)
  } catch {
    await pool.query(TABLE)
  }
}

export default recipe
