import type { RowDataPacket } from 'mysql2/promise'
import { deleted, inserted, openTable } from '../clients/mysql.js'
import type { Recipe } from '../recipe.js'

const TABLE = `CREATE TABLE IF NOT EXISTS owned_lock (
  id BIGINT PRIMARY KEY AUTO_INCREMENT,
  method_name VARCHAR(255) NOT NULL,
  owner VARCHAR(255) NOT NULL,
  UNIQUE KEY (method_name)
)`

const recipe: Recipe = {
  name: 'db-unique-owner',
  title: 'MySQL: unique index, owner column',
  store: 'mysql',
  story:
    'The answer to “and if the holder asks again?”: a column says who holds; whoever finds itself there has it already.',
  offers: { ttl: false, blocking: false, reentrant: true },
  async open(env) {
    const { urls, owner } = env
    const pool = await openTable(urls[0]!, TABLE)
    const held = (name: string) => ({
      believes: () => true,
      release: async () =>
        await deleted(pool, 'DELETE FROM owned_lock WHERE method_name = ? AND owner = ?', [name, owner]),
    })
    return {
      async tryAcquire(name) {
        const select = 'SELECT owner FROM owned_lock WHERE method_name = ?'
        const [[row]] = await pool.query<RowDataPacket[]>(select, [name])
        if (row !== undefined) return row['owner'] === owner ? held(name) : undefined
        await env.step('nobody holds it')
        const insert = 'INSERT INTO owned_lock (method_name, owner) VALUES (?, ?)'
        return (await inserted(pool, insert, [name, owner])) ? held(name) : undefined
      },
      close: async () => await pool.end(),
    }
  },
}

export default recipe
