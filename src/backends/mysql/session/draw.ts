import type { Connections } from '../connections.js'
import { bigint, type Rows } from '../rows.js'
import type { Tables } from '../tables.js'
import type { Session } from './session.js'

/** The floor is raised by this much, before what is left of it falls below half. */
const STEP = 10_000n

/**
 * Where fences come from: a number drawn while the lock is held, so larger than any that a holder before us drew.
 *
 * On MySQL a row is written for it. MariaDB has sequences, which cost no commit, but for that reason go back when the
 * server is killed: drawn 1, 2; kill -9; drawn 1, 2 again. So a floor is kept beside the sequence, in a row, and
 * no number at or above the floor is used before the floor was raised and committed. A session that begins, as all do
 * after a crash, first lifts the sequence to the floor.
 */
export class Draw {
  readonly #notes: Connections
  readonly #tables: Tables
  readonly #mariadb: boolean
  #floor = 0n

  constructor(notes: Connections, tables: Tables, mariadb: boolean) {
    this.#notes = notes
    this.#tables = tables
    this.#mariadb = mariadb
  }

  /** To be done once in every session, before it draws. */
  async prepare(session: Session): Promise<void> {
    if (!this.#mariadb) return
    const [rows] = await session.run(`SELECT n FROM ${this.#tables.floor}`, 'setting up a session')
    const floor = bigint(rows?.[0]?.[0])
    // Only ever lifts it: a smaller number than the sequence's own is ignored.
    await session.run(`SELECT SETVAL(${this.#tables.sequence}, ${floor}, 0)`, 'setting up a session')
  }

  /**
   * The statements that take locks, waiting so long, and draw for those they got. On MariaDB the condition sees to
   * it that the lock comes first; on MySQL it is the statement before, and one number does for locks that differ.
   * Columns have one name: the client library compiles a parser for every new list of names.
   */
  takeSql(locks: readonly string[], waitS: number): string[] {
    if (this.#mariadb) {
      const drawn = `NEXTVAL(${this.#tables.sequence})`
      return [`SELECT ${locks.map((lock) => `IF(GET_LOCK('${lock}', ${waitS}) = 1, ${drawn}, 0) AS n`).join(',')}`]
    }
    const taken = locks.map((lock) => `GET_LOCK('${lock}', ${waitS}) AS n`)
    const { draw } = this.#tables
    const drawn = [`INSERT INTO ${draw} (n) VALUES (NULL)`, 'SELECT LAST_INSERT_ID()']
    return [`SELECT ${taken.join(',')}`, ...drawn, `DELETE FROM ${draw} WHERE n < LAST_INSERT_ID()`]
  }

  /** The numbers in their results, once they are safe to use; undefined for a lock that was not got. */
  async read(results: readonly Rows[]): Promise<(bigint | undefined)[]> {
    const taken = (results[0]?.[0] ?? []).map(bigint)
    const one = this.#mariadb ? undefined : bigint(results[2]?.[0]?.[0])
    const orders = taken.map((value) => (value === 0n ? undefined : (one ?? value)))
    const highest = orders.reduce<bigint>((most, order) => (order !== undefined && order > most ? order : most), 0n)
    if (this.#mariadb && highest + STEP / 2n >= this.#floor) await this.#raise(highest)
    return orders
  }

  async #raise(above: bigint): Promise<void> {
    const { floor } = this.#tables
    const sql = `UPDATE ${floor} SET n = GREATEST(n, ${above + STEP}); SELECT n FROM ${floor}`
    const [, rows] = await this.#notes.run(sql, 'raising the floor of the fences')
    this.#floor = bigint(rows?.[0]?.[0])
  }
}
