import type { Connections } from '../connections.js'
import { bigint, number, type Rows } from '../rows.js'
import { integer } from '../sql-text.js'
import type { Tables } from '../tables.js'
import type { Session } from './session.js'

/** The floor is raised by this much, before what is left of it falls below half. */
const STEP = 10_000n

/** All but the highest byte of UUID_SHORT(), which is the server's number. */
const COUNTED = 0xff_ffff_ffff_ffffn

/**
 * Where fences come from: a number drawn while the lock is held, so larger than any that a holder before us drew.
 *
 * On MySQL a row is written for it. On MariaDB the server's own counter, UUID_SHORT(), costs nothing; but it begins
 * with the time of the server's start, so it may go back: another server takes over, the clock was put back, a crash
 * and a restart within one second. So a floor is kept, in a row: no number at or above it is used before it was
 * raised and committed. And for each run of a server there is a lift, which brings its counter to the floor that
 * it began with, the same for all sessions of that run. The lift is kept in memory, so it goes with the run.
 */
export class Draw {
  readonly #notes: Connections
  readonly #tables: Tables
  readonly #mariadb: boolean
  readonly #lifts = new WeakMap<Session, bigint>()
  #floor = 0n

  constructor(notes: Connections, tables: Tables, mariadb: boolean) {
    this.#notes = notes
    this.#tables = tables
    this.#mariadb = mariadb
  }

  /** To be done once in every session, before it draws. */
  async prepare(session: Session): Promise<void> {
    if (!this.#mariadb) return
    const { floor, run } = this.#tables
    const [rows] = await session.run('SELECT @@server_id AS n', 'setting up a session')
    // As a number in the text: a replica that repeats the statement must not put its own.
    const server = integer(number(rows?.[0]?.[0]))
    const results = await session.run(
      [
        'START TRANSACTION',
        `SELECT n, server INTO @holdfast_n, @holdfast_server FROM ${floor} WHERE one = 1 FOR UPDATE`,
        `SET @holdfast_u = UUID_SHORT() & ${COUNTED}`,
        // The floor was last used by another server: what this one had before that is out of date.
        `DELETE FROM ${run} WHERE server <> ${server} OR @holdfast_server <> ${server}`,
        `INSERT INTO ${run} (server, lift) SELECT ${server}, IF(@holdfast_u >= @holdfast_n, 0, @holdfast_n - @holdfast_u) FROM ${floor} WHERE NOT EXISTS (SELECT 1 FROM ${run})`,
        `UPDATE ${floor} SET server = ${server} WHERE server <> ${server}`,
        `SELECT lift FROM ${run}`,
        'COMMIT',
      ].join(';'),
      'setting up a session',
    )
    this.#lifts.set(session, bigint(results[6]?.[0]?.[0]))
    // It may be another server, that never heard of how far we raised it.
    this.#floor = 0n
  }

  /**
   * The statements that take locks, waiting so long, and draw for those they got. On MariaDB the condition sees to
   * it that the lock comes first; on MySQL it is the statement before, and one number does for locks that differ.
   */
  takeSql(locks: readonly string[], waitS: number): string[] {
    if (this.#mariadb) {
      return [`SELECT ${locks.map((lock) => `IF(GET_LOCK('${lock}',${waitS}),UUID_SHORT(),0)`).join(',')}`]
    }
    const taken = locks.map((lock) => `GET_LOCK('${lock}',${waitS})`)
    const { draw } = this.#tables
    const drawn = [`INSERT INTO ${draw} (n) VALUES (NULL)`, 'SELECT LAST_INSERT_ID()']
    return [`SELECT ${taken.join(',')}`, ...drawn, `DELETE FROM ${draw} WHERE n < LAST_INSERT_ID()`]
  }

  /** The numbers in their results, once they are safe to use; undefined for a lock that was not got. */
  async read(session: Session, results: readonly Rows[]): Promise<(bigint | undefined)[]> {
    const taken = (results[0]?.[0] ?? []).map(bigint)
    if (!this.#mariadb) {
      const drawn = bigint(results[2]?.[0]?.[0])
      return taken.map((value) => (value === 0n ? undefined : drawn))
    }
    const lift = this.#lifts.get(session) ?? 0n
    let highest = 0n
    const orders = taken.map((value) => {
      if (value === 0n) return undefined
      const order = (value & COUNTED) + lift
      if (order > highest) highest = order
      return order
    })
    if (highest + STEP / 2n >= this.#floor) await this.#raise(highest)
    return orders
  }

  async #raise(above: bigint): Promise<void> {
    const { floor } = this.#tables
    const sql = `UPDATE ${floor} SET n = GREATEST(n, ${above + STEP}); SELECT n FROM ${floor}`
    const [, rows] = await this.#notes.run(sql, 'raising the floor of the fences')
    this.#floor = bigint(rows?.[0]?.[0])
  }
}
