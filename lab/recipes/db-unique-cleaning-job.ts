import type { Pool } from 'mysql2/promise'
import { deleted, inserted, openTable } from '../clients/mysql.js'
import type { Recipe } from '../recipe.js'

const TABLE = `CREATE TABLE IF NOT EXISTS cleaned_lock (
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
  async open({ urls, ttlMs }) {
    const pool = await openTable(urls[0]!, TABLE)
    const stopCleaning = cleanEvery(ttlMs / 4, pool, ttlMs)
    return {
      async tryAcquire(name) {
        if (!(await inserted(pool, 'INSERT INTO cleaned_lock (method_name) VALUES (?)', [name]))) return undefined
        return {
          believes: () => true,
          release: async () => await deleted(pool, 'DELETE FROM cleaned_lock WHERE method_name = ?', [name]),
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
function cleanEvery(everyMs: number, pool: Pool, olderThanMs: number): () => void {
  const sql = 'DELETE FROM cleaned_lock WHERE created_at < CURRENT_TIMESTAMP(3) - INTERVAL ? MICROSECOND'
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
