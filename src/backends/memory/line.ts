import type { Holder } from '../../core/backend.js'
import type { LineKey } from '../../core/line.js'

/** A ticket that stands in a memory line, linked to its neighbours so that leaving costs the same anywhere. */
export interface Stood {
  readonly id: string
  readonly order: bigint
  readonly weight: number
  readonly capacity: number
  readonly joinedAt: number
  handle: string
  holder: Holder
  expiresAt: number
  granted: boolean
  left: boolean
  before: Stood | undefined
  after: Stood | undefined
}

/**
 * One line, kept as a linked list whose granted tickets are its first `granted` ones.
 * Work is done at the border between granted and waiting only, so a hand-off in a line of ten
 * thousand costs what it costs in a line of ten.
 */
export class MemoryLine {
  readonly key: LineKey
  readonly #byId = new Map<string, Stood>()
  #first: Stood | undefined
  #last: Stood | undefined
  #lastGranted: Stood | undefined
  #grantedWeight = 0
  /** No granted ticket's lease ends before this. A lower bound: renewals move leases on, not the bound. */
  #nextExpiry = Number.POSITIVE_INFINITY

  constructor(key: LineKey) {
    this.key = key
  }

  get empty(): boolean {
    return this.#first === undefined
  }

  get size(): number {
    return this.#byId.size
  }

  get nextExpiry(): number {
    return this.#nextExpiry
  }

  find(id: string): Stood | undefined {
    return this.#byId.get(id)
  }

  /** Puts a ticket at the end. Call `settle` afterwards. */
  add(ticket: Stood): void {
    ticket.before = this.#last
    if (this.#last === undefined) this.#first = ticket
    else this.#last.after = ticket
    this.#last = ticket
    this.#byId.set(ticket.id, ticket)
  }

  /** Takes a ticket out. Call `settle` afterwards. */
  remove(ticket: Stood): void {
    if (ticket.before === undefined) this.#first = ticket.after
    else ticket.before.after = ticket.after
    if (ticket.after === undefined) this.#last = ticket.before
    else ticket.after.before = ticket.before
    if (ticket.granted) {
      this.#grantedWeight -= ticket.weight
      if (this.#lastGranted === ticket) this.#lastGranted = ticket.before
    }
    this.#byId.delete(ticket.id)
  }

  /** Drops what has lapsed and grants what the rule now grants; calls back for each ticket newly granted. */
  settle(now: number, granted: (ticket: Stood) => void): void {
    if (now >= this.#nextExpiry) this.#dropLapsed(now)
    for (;;) {
      const next = this.#lastGranted === undefined ? this.#first : this.#lastGranted.after
      if (next === undefined) return
      if (next.expiresAt <= now) {
        this.remove(next)
        continue
      }
      if (this.#grantedWeight + next.weight > next.capacity) return
      next.granted = true
      this.#grantedWeight += next.weight
      this.#lastGranted = next
      this.extendTo(next, next.expiresAt)
      granted(next)
    }
  }

  extendTo(ticket: Stood, expiresAt: number): void {
    ticket.expiresAt = expiresAt
    if (ticket.granted && expiresAt < this.#nextExpiry) this.#nextExpiry = expiresAt
  }

  *tickets(): Iterable<Stood> {
    for (let ticket = this.#first; ticket !== undefined; ticket = ticket.after) yield ticket
  }

  #dropLapsed(now: number): void {
    let next = Number.POSITIVE_INFINITY
    for (let ticket = this.#first; ticket?.granted; ticket = ticket.after) {
      if (ticket.expiresAt <= now) this.remove(ticket)
      else if (ticket.expiresAt < next) next = ticket.expiresAt
    }
    this.#nextExpiry = next
  }
}
