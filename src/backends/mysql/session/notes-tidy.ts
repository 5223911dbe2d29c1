import type { Connections } from '../connections.js'
import { Rounds } from '../rounds.js'
import { string } from '../rows.js'
import { NOW, texts } from '../sql-text.js'
import type { Tables } from '../tables.js'

/** How often a process tidies, and how many notes it drops each time. */
const PAUSE_MS = 60_000
const MOST_DROPPED = 500
/** Long after it faded: a process that was stopped may still find in its note that it was evicted. */
const KEEP_S = 600

/** Drops the notes of processes that were killed: nobody else takes them back. */
export class NotesTidy {
  readonly #connections: Connections
  readonly #tables: Tables
  readonly #rounds = new Rounds(PAUSE_MS, () => this.#slice())

  constructor(connections: Connections, tables: Tables) {
    this.#connections = connections
    this.#tables = tables
  }

  start(): void {
    this.#rounds.begin()
  }

  close(): void {
    this.#rounds.close()
  }

  /** Found without a lock, deleted by key. */
  async #slice(): Promise<void> {
    const { session } = this.#tables
    const faded = `expires <= ${NOW} - INTERVAL ${KEEP_S} SECOND`
    const [rows = []] = await this.#connections.run(
      `SELECT id FROM ${session} WHERE ${faded} LIMIT ${MOST_DROPPED}`,
      'tidying up',
    )
    if (rows.length === 0) return
    const ids = texts(rows.map(([id]) => string(id)))
    await this.#connections.run(`DELETE FROM ${session} WHERE id IN (${ids}) AND ${faded}`, 'tidying up')
  }
}
