import { deleted, inserted, openTable } from '../clients/mysql.js'
import type { Recipe } from '../recipe.js'

const TABLE = `CREATE TABLE IF NOT EXISTS method_lock (
  id BIGINT PRIMARY KEY AUTO_INCREMENT,
  method_name VARCHAR(255) NOT NULL,
  UNIQUE KEY (method_name)
)`

const recipe: Recipe = {
  name: 'db-unique-no-expiry',
  title: 'MySQL: unique index',
  store: 'mysql',
  story: 'The first of the database locks in every comparison: insert a row to lock, delete it to unlock.',
  offers: { ttl: false, blocking: false, reentrant: false },
  async open({ urls }) {
    const pool = await openTable(urls[0]!, TABLE)
    return {
      async tryAcquire(name) {
        if (!(await inserted(pool, 'INSERT INTO method_lock (method_name) VALUES (?)', [name]))) return undefined
        return {
          believes: () => true,
          release: async () => await deleted(pool, 'DELETE FROM method_lock WHERE method_name = ?', [name]),
        }
      },
      close: async () => await pool.end(),
    }
  },
}

export default recipe
