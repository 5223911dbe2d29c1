import type { Connections } from '../connections.js'
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
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(connections: Connections, tables: Tables) {
    this.#connections = connections
    this.#tables = tables
  }

  /** One slice now, the next ones now and then. */
  start(): void {
    const again = (): void => {
      if (this.#closed) return
      this.#timer = setTimeout(() => this.start(), PAUSE_MS * (0.5 + Math.random())).unref()
    }
    // What fails now is tidied by the next round, or by another process.
    this.#slice().then(again, again)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
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
