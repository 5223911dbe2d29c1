import type { BackendEvents } from '../../core/backend.js'
import { grantedCount, type LineKey, lineText } from '../../core/line.js'
import type { Snapshot } from './line-store.js'

/** What this client knows of a ticket of its own. */
export interface OwnTicket {
  readonly id: string
  handle: string
  granted: boolean
  /** Local monotonic time until which its key surely lives: when its lease was last set (asked for) plus that lease. */
  leasedUntil: number
  /** When the answer came that it stands; what was asked before that may not know it yet. */
  readonly since: number
  /** Its key may have been deleted by a leave whose answer was lost. */
  leaving: boolean
}

/** A line in which this client has tickets, and how it was last seen. */
export interface OwnLine {
  readonly line: LineKey
  readonly tickets: Map<string, OwnTicket>
  snapshot: Snapshot | undefined
}

const SWEEP_MS = 60_000

/** The tickets of this client, by their line: tells core what a look at the line means for them. */
export class OwnTickets {
  readonly #lines = new Map<string, OwnLine>()
  readonly #events: () => BackendEvents
  #sweptAt = performance.now()

  constructor(events: () => BackendEvents) {
    this.#events = events
  }

  line(line: LineKey): OwnLine | undefined {
    return this.byText(lineText(line))
  }

  byText(text: string): OwnLine | undefined {
    return this.#lines.get(text)
  }

  ticket(line: LineKey, id: string): OwnTicket | undefined {
    return this.line(line)?.tickets.get(id)
  }

  /** This ticket stands, with a lease asked for at `askedAt`. */
  put(line: LineKey, ticket: Omit<OwnTicket, 'since' | 'leaving'>): void {
    const text = lineText(line)
    let own = this.#lines.get(text)
    if (own === undefined) {
      own = { line, tickets: new Map(), snapshot: undefined }
      this.#lines.set(text, own)
    }
    own.tickets.set(ticket.id, { ...ticket, since: performance.now(), leaving: false })
    this.#sweep()
  }

  forget(line: LineKey, id: string): void {
    const own = this.line(line)
    if (own === undefined) return
    own.tickets.delete(id)
    if (own.tickets.size === 0) this.#lines.delete(lineText(line))
  }

  /** Forgets tickets whose lease ended long ago and that nobody left: their hold was lost while the store was away. */
  #sweep(): void {
    const now = performance.now()
    if (now - this.#sweptAt < SWEEP_MS) return
    this.#sweptAt = now
    for (const { line, tickets } of this.#lines.values()) {
      for (const { id, leasedUntil } of tickets.values()) {
        if (now - leasedUntil > SWEEP_MS) this.forget(line, id)
      }
    }
  }

  /**
   * Takes in how a line looked when asked at `askedAt`: remembers it, and tells of own tickets that
   * were granted since, or are no longer there.
   */
  absorb(snapshot: Snapshot, askedAt: number): void {
    const own = this.line(snapshot.line)
    if (own === undefined) return
    own.snapshot = snapshot
    const { entries } = snapshot.value
    const granted = grantedCount(entries)
    const standing = new Set<string>()
    for (const [index, entry] of entries.entries()) {
      const ticket = own.tickets.get(entry.id)
      if (ticket === undefined || entry.handle !== ticket.handle || entry.left) continue
      standing.add(ticket.id)
      if (index < granted && !ticket.granted) this.#granted(snapshot.line, ticket, entry.order)
    }
    if (standing.size === own.tickets.size) return
    const lost: string[] = []
    for (const { id, since, leaving } of own.tickets.values()) {
      if (!standing.has(id) && since < askedAt && !leaving) lost.push(id)
    }
    if (lost.length === 0) return
    for (const id of lost) this.forget(snapshot.line, id)
    this.#events().lost(lost)
  }

  #granted(line: LineKey, ticket: OwnTicket, order: number): void {
    // Its key may have expired, and someone may be about to drop it: only a renewal can tell.
    if (performance.now() >= ticket.leasedUntil) return this.#events().moved(line)
    ticket.granted = true
    this.#events().granted(ticket.id, BigInt(order))
  }
}
