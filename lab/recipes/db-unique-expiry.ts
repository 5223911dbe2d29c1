import { deleted, inserted, openTable } from '../clients/mysql.js'
import type { Recipe } from '../recipe.js'

const TABLE = `CREATE TABLE IF NOT EXISTS expiring_lock (
  id BIGINT PRIMARY KEY AUTO_INCREMENT,
  method_name VARCHAR(255) NOT NULL,
  expires_at BIGINT NOT NULL,
  UNIQUE KEY (method_name)
)`

const recipe: Recipe = {
  name: 'db-unique-expiry',
  title: 'MySQL: unique index, expiry by the application’s clock',
  store: 'mysql',
  story:
    'The usual answer to “and if the holder dies?”: write into the row when it ends, and let others delete it then.',
  offers: { ttl: true, blocking: false, reentrant: false },
  async open(env) {
    const { urls, ttlMs } = env
    const pool = await openTable(urls[0]!, TABLE)
    return {
      async tryAcquire(name) {
        await deleted(pool, 'DELETE FROM expiring_lock WHERE method_name = ? AND expires_at < ?', [name, env.now()])
        await env.step('what had expired is deleted')
        const insert = 'INSERT INTO expiring_lock (method_name, expires_at) VALUES (?, ?)'
        if (!(await inserted(pool, insert, [name, env.now() + ttlMs]))) return undefined
        return {
          believes: () => true,
          release: async () => await deleted(pool, 'DELETE FROM expiring_lock WHERE method_name = ?', [name]),
        }
      },
      close: async () => await pool.end(),
    }
  },
}

export default recipe
