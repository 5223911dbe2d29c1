import type { Pool as CallbackPool } from 'mysql2'
import type { Connection, Pool } from 'mysql2/promise'
import { ConfigError } from '../../core/errors.js'
import type { Rows } from './rows.js'

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

/** What a promise connection of mysql2 wraps. */
interface Core {
  readonly stream?: { unref?(): void }
  query(
    options: { sql: string; rowsAsArray: boolean; typeCast: boolean },
    done: (error: Error | null, result: unknown, fields: unknown) => void,
  ): void
}

function coreOf(connection: Connection): Core {
  return (connection as unknown as { connection: Core }).connection
}

/**
 * Sends one packet and gives the results of its statements, every value as its bytes.
 * Below the promises of mysql2, which capture a stack at every call.
 */
export function sendThen(
  connection: Connection,
  sql: string,
  done: (error: Error | null, results: Rows[]) => void,
): void {
  coreOf(connection).query({ sql, rowsAsArray: true, typeCast: false }, (error, result, fields) => {
    if (error !== null) return done(error, [])
    const several = Array.isArray(fields) && (fields[0] === undefined || Array.isArray(fields[0]))
    done(null, (several ? result : [result]) as Rows[])
  })
}

export function send(connection: Connection, sql: string): Promise<Rows[]> {
  return new Promise((resolve, reject) => {
    sendThen(connection, sql, (error, results) => (error === null ? resolve(results) : reject(error)))
  })
}

/** Keeps a connection's socket from keeping the process alive. */
export function unref(connection: Connection): void {
  coreOf(connection).stream?.unref?.()
}
