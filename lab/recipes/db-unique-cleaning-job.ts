import type { Pool } from 'mysql2/promise'
import { deleted, inserted, openTable } from '../clients/mysql.js'
import type { Recipe } from '../recipe.js'

const tableOf = (name: string): string => `CREATE TABLE IF NOT EXISTS ${name} (
  id BIGINT PRIMARY KEY AUTO_INCREMENT,
  method_name VARCHAR(255) NOT NULL,
  created_at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  UNIQUE KEY (method_name)
)`

const recipe: Recipe = {
  name: 'db-unique-cleaning-job',
  title: 'MySQL: unique index, cleaning job',
  store: 'mysql',
  story:
    'The other answer to “and if the holder dies?”: a scheduled job deletes the rows that have stood for too long.',
  offers: { ttl: true, blocking: false, reentrant: false },
  async open({ urls, ttlMs, space }) {
    const table = `cleaned_lock_${space}`
    const pool = await openTable(urls[0]!, tableOf(table))
    const stopCleaning = cleanEvery(ttlMs / 4, pool, table, ttlMs)
    return {
      async tryAcquire(name) {
        if (!(await inserted(pool, `INSERT INTO ${table} (method_name) VALUES (?)`, [name]))) return undefined
        return {
          believes: () => true,
          release: async () => await deleted(pool, `DELETE FROM ${table} WHERE method_name = ?`, [name]),
        }
      },
      async close() {
        stopCleaning()
        await pool.end()
      },
    }
  },
}

/** Every instance of the application runs the job, as schedulers in applications do. */
function cleanEvery(everyMs: number, pool: Pool, table: string, olderThanMs: number): () => void {
  const sql = `DELETE FROM ${table} WHERE created_at < CURRENT_TIMESTAMP(3) - INTERVAL ? MICROSECOND`
  let running = false
  const timer = setInterval(() => {
    if (running) return
    running = true
    deleted(pool, sql, [olderThanMs * 1_000])
      // A round that failed (a deadlock, a broken connection) is made up for by the next one.
      .catch((error: unknown) => console.error('the cleaning job failed', error))
      .finally(() => (running = false))
  }, everyMs)
  return () => clearInterval(timer)
}

export default recipe
