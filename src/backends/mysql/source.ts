import type { Pool as CallbackPool } from 'mysql2'
import type { Connection, Pool } from 'mysql2/promise'
import { ConfigError } from '../../core/errors.js'

/** Where connections come from: a pool of the application's, or a function that opens one for us alone. */
export type MysqlSource = Pool | CallbackPool | (() => Promise<Connection>)

/** One connection, for as long as we have it. */
export interface Lent {
  readonly connection: Connection
  /** Only connections of our own are set up for us and kept between calls. */
  readonly own: boolean
  /** Gives it back (a pool's), or does nothing (our own). */
  giveBack(): void
  /** Closes it for good, whatever it is doing. */
  destroy(): void
}

export interface Lender {
  readonly own: boolean
  lend(): Promise<Lent>
}

/** Makes a lender of what the application gave. */
export function lender(source: MysqlSource): Lender {
  if (typeof source === 'function') return { own: true, lend: async () => ownConnection(await source()) }
  const pool = 'promise' in source && typeof source.promise === 'function' ? source.promise() : (source as Pool)
  if (typeof pool.getConnection !== 'function') {
    throw new ConfigError('mysql() takes a mysql2 pool or a function that opens a mysql2/promise connection.')
  }
  return {
    own: false,
    async lend() {
      const connection = await pool.getConnection()
      return {
        connection: connection as unknown as Connection,
        own: false,
        giveBack: () => connection.release(),
        destroy: () => connection.destroy(),
      }
    },
  }
}

function ownConnection(connection: Connection): Lent {
  return { connection, own: true, giveBack: () => undefined, destroy: () => connection.destroy() }
}
