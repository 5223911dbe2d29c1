import type { Connections } from './connections.js'
import { dropOrders, MOST_DROPPED } from './lapsed.js'
import { Rounds } from './rounds.js'
import { bigint, flag } from './rows.js'
import { NOW } from './sql-text.js'
import type { Tables } from './tables.js'

/** How often a process tidies, and how many tickets it looks at each time. */
const PAUSE_MS = 15_000
const MOST_READ = 5_000

/**
 * Drops what nobody comes across: lapsed tickets of lines that no one asks for any more, and old tombstones.
 * Walks the table in slices, so that one call's work is bounded however many tickets there are.
 */
export class Tidy {
  readonly #connections: Connections
  readonly #tables: Tables
  readonly #rounds = new Rounds(PAUSE_MS, () => this.slice())
  #after = 0n

  constructor(connections: Connections, tables: Tables) {
    this.#connections = connections
    this.#tables = tables
  }

  start(): void {
    this.#rounds.later()
  }

  /** Tidies one slice of the table; gives how many tickets were dropped. */
  async slice(): Promise<number> {
    const sql = `SELECT ord, expires <= ${NOW} FROM ${this.#tables.ticket} WHERE ord > ${this.#after} ORDER BY ord LIMIT ${MOST_READ}`
    const [rows = []] = await this.#connections.run(sql, 'tidying up')
    this.#after = rows.length < MOST_READ ? 0n : bigint(rows.at(-1)?.[0])
    const lapsed = rows.filter(([, dead]) => flag(dead)).map(([ord]) => bigint(ord))
    let dropped = 0
    for (let i = 0; i < lapsed.length; i += MOST_DROPPED) {
      dropped += await dropOrders(this.#connections, this.#tables, lapsed.slice(i, i + MOST_DROPPED))
    }
    return dropped
  }

  close(): void {
    this.#rounds.close()
  }
}
