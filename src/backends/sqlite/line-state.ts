import { grantedCount } from '../../core/line.js'
import type { Ledger } from './ledger.js'
import { HEAD } from './statements.js'
import type { Place, Ticket } from './ticket.js'

/** How many more tickets are read when the head did not decide. */
const MORE = 256

/** One line during one transaction: read from its head, only as far as the grant rule needs it. */
export class LineState {
  readonly text: string
  readonly #ledger: Ledger
  /** Everyone who stood when it was read, in order: for who was granted before. */
  readonly #stood: Ticket[] = []
  /** Who stands now, from the head. */
  readonly #stands: Ticket[] = []
  /** New ones that stand behind what was not read yet. */
  readonly #behind: Ticket[] = []
  #complete = false
  #moved = false
  /** How many stand granted, while that is known. */
  #granted: number | undefined

  constructor(text: string, ledger: Ledger) {
    this.text = text
    this.#ledger = ledger
  }

  /** Takes in the next ticket that was read. */
  read(row: Ticket): void {
    this.#granted = undefined
    const ticket = this.#ledger.meet(row)
    this.#stood.push(ticket)
    if (this.#ledger.isDropped(ticket)) this.#moved = true
    else this.#stands.push(ticket)
  }

  headWasRead(): void {
    this.#wasRead(HEAD, this.#stood.length)
  }

  readAll(): void {
    while (!this.#complete) this.#readMore()
  }

  /** How many stand granted. */
  granted(): number {
    while (this.#granted === undefined) {
      const count = grantedCount(this.#stands)
      if (count < this.#stands.length || this.#complete) this.#granted = count
      else this.#readMore()
    }
    return this.#granted
  }

  /** Whether somebody who waits was read: then whoever was not read waits, too. */
  get isCrowded(): boolean {
    return grantedCount(this.#stands) < this.#stands.length
  }

  isGranted(ticket: Place): boolean {
    const last = this.#stands[this.granted() - 1]
    return last !== undefined && ticket.ord <= last.ord
  }

  /** The granted ones, from the head. */
  holders(): readonly Ticket[] {
    return this.#stands.slice(0, this.granted())
  }

  /** Whether one more at the end would be granted. */
  hasRoom(weight: number, capacity: number): boolean {
    if (this.granted() < this.#stands.length) return false
    return this.#stands.reduce((sum, ticket) => sum + ticket.weight, weight) <= capacity
  }

  /** Everyone who stands, read to the end. */
  everyone(): readonly Ticket[] {
    this.readAll()
    return this.#stands
  }

  /** A new ticket at the end. */
  append(ticket: Ticket): void {
    this.#granted = undefined
    ;(this.#complete ? this.#stands : this.#behind).push(ticket)
  }

  forget(ticket: Ticket): void {
    this.#moved = true
    this.#granted = undefined
    for (const list of [this.#stands, this.#behind]) {
      const index = list.indexOf(ticket)
      if (index >= 0) list.splice(index, 1)
    }
  }

  indexOf(ticket: Place): number {
    return this.#stands.findIndex((other) => other.ord === ticket.ord)
  }

  /** Drops the holders whose processes are gone, and then those of whoever holds next. True when that moved the line. */
  dropGone(): boolean {
    let moved = false
    for (;;) {
      const dead = this.holders().filter((ticket) => this.#ledger.isGone(ticket))
      if (dead.length === 0) return moved
      for (const ticket of dead) this.#ledger.drop(ticket)
      moved = true
    }
  }

  /** Those who are granted now and were not before. A dead one is not told but dropped, for the next to be granted. */
  newlyGranted(): Ticket[] {
    if (!this.#moved) return []
    for (;;) {
      const holders = this.holders()
      // What was not read for the present holders was not granted before: the line can only have moved up.
      const before = new Set(this.#stood.slice(0, grantedCount(this.#stood)))
      const fresh = holders.filter((ticket) => !before.has(ticket))
      const dead = fresh.filter((ticket) => this.#ledger.isGone(ticket))
      if (dead.length === 0) return fresh
      for (const ticket of dead) this.#ledger.drop(ticket)
    }
  }

  #readMore(): void {
    const rows = this.#ledger.more(this.text, this.#stood.at(-1)?.ord ?? 0, MORE)
    for (const row of rows) this.read(row)
    this.#wasRead(MORE, rows.length)
  }

  /** Says how many were asked for: fewer that came mean that there are no more. */
  #wasRead(asked: number, came: number): void {
    this.#complete = came < asked
    this.#granted = undefined
    if (this.#complete) this.#stands.push(...this.#behind.splice(0))
  }
}
