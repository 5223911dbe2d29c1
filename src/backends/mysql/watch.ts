import type { BackendEvents } from '../../core/backend.js'
import type { LineKey } from '../../core/line.js'
import type { Connections } from './connections.js'
import { type Border, lookSql, readBorders } from './look.js'
import { dropLapsed } from './lapsed.js'
import { lineValue } from './sql-text.js'
import type { Tables } from './tables.js'

export interface Watched {
  readonly id: string
  readonly order: bigint
  readonly line: LineKey
  readonly capacity: number
}

export interface WatchOptions {
  /** The shortest and the longest pause between two looks at a line. */
  readonly minMs: number
  readonly maxMs: number
}

interface WatchedLine {
  readonly key: LineKey
  readonly tickets: Map<string, Watched>
  border: bigint
  changedAt: number
  dueAt: number
}

/** The most lines in one look. */
const MOST_LINES = 200
/** A line is looked at again after this share of the time for which nothing has changed in it. */
const PATIENCE = 1 / 8

/**
 * The one poll of a process: looks at the lines in which its tickets wait, all that are due in one packet.
 * A line that has just moved is looked at every few ms; one that has not for long, seldom.
 * It only reads. Lapsed tickets at a head are dropped on the way.
 */
export class Watch {
  readonly #connections: Connections
  readonly #tables: Tables
  readonly #events: BackendEvents
  readonly #options: WatchOptions
  readonly #lines = new Map<string, WatchedLine>()
  readonly #lineOf = new Map<string, WatchedLine>()
  /** The tickets whose join has no answer yet, and whether they have left meanwhile. */
  readonly #joining = new Map<string, boolean>()
  #timer: NodeJS.Timeout | undefined
  #timerDue = 0
  #looking = false
  #closed = false

  constructor(connections: Connections, tables: Tables, events: BackendEvents, options: WatchOptions) {
    this.#connections = connections
    this.#tables = tables
    this.#events = events
    this.#options = options
  }

  joining(ids: readonly string[]): void {
    for (const id of ids) this.#joining.set(id, false)
  }

  joined(ids: readonly string[]): void {
    for (const id of ids) this.#joining.delete(id)
  }

  add(ticket: Watched): void {
    // Its leave has overtaken the answer to its join: nobody would ever take it out again.
    if (this.#joining.get(ticket.id) === true) return
    const value = lineValue(ticket.line)
    const now = performance.now()
    let line = this.#lines.get(value)
    if (line === undefined) {
      line = { key: ticket.line, tickets: new Map(), border: 0n, changedAt: now, dueAt: now + this.#options.minMs }
      this.#lines.set(value, line)
    }
    line.tickets.set(ticket.id, ticket)
    // A look under way may have seen it granted before it stood here: the next one must not take that for old news.
    line.border = 0n
    this.#lineOf.set(ticket.id, line)
    this.#schedule()
  }

  left(id: string): void {
    if (this.#joining.has(id)) this.#joining.set(id, true)
    this.remove(id)
  }

  remove(id: string): void {
    const line = this.#lineOf.get(id)
    if (line === undefined) return
    this.#lineOf.delete(id)
    line.tickets.delete(id)
    if (line.tickets.size === 0) this.#lines.delete(lineValue(line.key))
  }

  /** Whether tickets of this process wait in this line. */
  has(line: string): boolean {
    return this.#lines.has(line)
  }

  /** Of these lines, those in which tickets of this process wait: with what a look at them needs. */
  waitedFor(lines: readonly LineKey[]): { line: LineKey; capacity: number }[] {
    const seen = new Set<string>()
    const waited: { line: LineKey; capacity: number }[] = []
    for (const key of lines) {
      const value = lineValue(key)
      const line = this.#lines.get(value)
      if (line === undefined || seen.has(value)) continue
      seen.add(value)
      waited.push(looked(line))
    }
    return waited
  }

  /** Tells the winners what a look has found. Gives the lines in which lapsed tickets are to be dropped. */
  tell(borders: ReadonlyMap<string, Border>): string[] {
    const now = performance.now()
    const dead: string[] = []
    for (const [value, border] of borders) {
      const line = this.#lines.get(value)
      if (line === undefined) continue
      if (border.dead) dead.push(value)
      if (border.order === line.border) continue
      line.border = border.order
      line.changedAt = now
      for (const ticket of [...line.tickets.values()]) {
        if (ticket.order > border.order) continue
        this.remove(ticket.id)
        this.#events.granted(ticket.id, ticket.order)
      }
    }
    return dead
  }

  /** Looks at these lines again at once. */
  soon(lines: readonly string[]): void {
    for (const value of lines) {
      const line = this.#lines.get(value)
      if (line !== undefined) line.dueAt = 0
    }
    this.#schedule()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    if (this.#looking || this.#closed || this.#lines.size === 0) return
    let due = Number.POSITIVE_INFINITY
    for (const line of this.#lines.values()) due = Math.min(due, line.dueAt)
    if (this.#timer !== undefined) {
      if (this.#timerDue <= due) return
      clearTimeout(this.#timer)
    }
    this.#timerDue = due
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      void this.#look()
    }, due - performance.now())
    this.#timer.unref()
  }

  async #look(): Promise<void> {
    const due = this.#takeDue()
    this.#looking = true
    try {
      if (due.length > 0) await this.#lookAt(due)
    } catch {
      // The watch is a hint. What is wrong with the store is said by the renewals, which go on meanwhile.
    } finally {
      this.#looking = false
      this.#schedule()
    }
  }

  async #lookAt(lines: readonly WatchedLine[]): Promise<void> {
    const results = await this.#connections.run(
      lookSql(this.#tables.ticket, lines.map(looked)).join(';'),
      'looking at its lines',
    )
    const borders = readBorders(results)
    // A line without any ticket: ours have lapsed or were evicted, which their renewals say.
    const dead = this.tell(borders)
    if (dead.length === 0) return
    await dropLapsed(this.#connections, this.#tables, dead)
    this.soon(dead)
  }

  #takeDue(): WatchedLine[] {
    const { minMs, maxMs } = this.#options
    const now = performance.now()
    const due: WatchedLine[] = []
    for (const line of this.#lines.values()) {
      const pauseMs = Math.min(maxMs, Math.max(minMs, (now - line.changedAt) * PATIENCE))
      // What is nearly due goes along: one packet instead of two.
      if (line.dueAt > now + pauseMs / 4) continue
      line.dueAt = now + pauseMs * (0.9 + Math.random() * 0.2)
      due.push(line)
      if (due.length === MOST_LINES) break
    }
    return due
  }
}

function looked(line: WatchedLine): { line: LineKey; capacity: number } {
  let capacity = 1
  for (const ticket of line.tickets.values()) capacity = Math.max(capacity, ticket.capacity)
  return { line: line.key, capacity }
}
