import { endGrants, type Place, placeFrom, placeReads, type Waiting } from './grant.js'
import { KeyEnds } from './key-ends.js'
import { runReads, type Store } from './store.js'
import type { Ticket } from './tickets.js'

/** Looks again where tickets stand, when what stood before them has changed: many in one call. */
export class Rechecks {
  readonly #store: Store
  readonly #due = new Set<Ticket>()
  /** Whose watch began at this revision, later than what was read. */
  readonly #unseen = new Map<Ticket, bigint>()
  readonly #ends: KeyEnds

  constructor(store: Store) {
    this.#store = store
    this.#ends = new KeyEnds(store.watches)
  }

  /** Watches what keeps the ticket waiting, from the revision after the one that was read. */
  watch(ticket: Ticket, place: Waiting, readRevision: bigint): void {
    // It may have left while it was read where it stands.
    if (ticket.granted || this.#store.tickets.get(ticket.id) !== ticket) return
    ticket.ahead = Math.min(ticket.ahead, place.ahead)
    const isWatched = ticket.unwatch !== undefined && isSame(ticket.behind, place.behind)
    ticket.behind = place.behind
    ticket.second = place.second
    if (isWatched) return
    ticket.unwatch?.()
    ticket.unwatch =
      ticket.line.kind === 'semaphore'
        ? this.#store.watches.once(place.watch, readRevision + 1n, () => this.#changed(ticket, false))
        : this.#awaitEnd(ticket, place.watch.key, readRevision)
  }

  #awaitEnd(ticket: Ticket, key: string, readRevision: bigint): () => void {
    const unwatch = this.#ends.listen(key, {
      begun: (now) => this.#begun(ticket, now, readRevision),
      ended: (revision) => {
        // Of another that stood at this key before, told late.
        if (revision !== undefined && revision <= readRevision) return
        this.#changed(ticket, revision !== undefined && this.#isItsTurn(ticket))
      },
    })
    const unscout = this.#scout(ticket, readRevision)
    return () => {
      unwatch()
      unscout?.()
    }
  }

  /** What kept the ticket waiting is not as it was. */
  #changed(ticket: Ticket, granted: boolean): void {
    ticket.unwatch?.()
    ticket.unwatch = undefined
    ticket.behind = undefined
    if (granted) this.take(ticket, { granted: true }, 0n, true)
    else this.#soon(ticket)
  }

  /** The watch tells of what comes; what came between the reading and now it does not. */
  #begun(ticket: Ticket, now: bigint, readRevision: bigint): void {
    if (now <= readRevision) return
    if (this.#unseen.size === 0) queueMicrotask(() => void this.#check())
    this.#unseen.set(ticket, now)
  }

  async #check(): Promise<void> {
    const unseen = new Map(this.#unseen)
    this.#unseen.clear()
    try {
      const late = await this.#checkThat(unseen, true)
      if (late.size > 0) await this.#checkThat(late, false)
    } catch {
      // The store is out of reach: the tickets' next renewal looks again, and reports the failure.
      return
    }
  }

  /** Looks whether what keeps the tickets waiting is still there. Returns those whom a member told that is behind. */
  async #checkThat(unseen: ReadonlyMap<Ticket, bigint>, serializable: boolean): Promise<Map<Ticket, bigint>> {
    const late = new Map<Ticket, bigint>()
    const asked = [...unseen].flatMap(([ticket, now]) => {
      const { behind } = ticket
      return behind === undefined || ticket.granted ? [] : [{ ticket, now, behind }]
    })
    const answers = await runReads(
      this.#store,
      asked.map(({ behind }) => [{ op: 'range', key: behind.key, keysOnly: true, serializable }]),
    )
    for (const [index, { ticket, now, behind }] of asked.entries()) {
      const { header, responses } = answers[index]!
      if (header.revision < now) late.set(ticket, now)
      else if (responses[0]?.range?.kvs[0]?.create !== behind.create && ticket.behind === behind) this.#soon(ticket)
    }
    return late
  }

  /** Whether the end of the one before it grants the ticket, as far as is known. */
  #isItsTurn({ behind, second, line }: Ticket): boolean {
    if (behind === undefined) return false
    return endGrants({ ended: behind, second, emptyTo: this.#store.tickets.emptyTo(line) })
  }

  /**
   * Watches also the second before it, where both are other clients': when that one ends, it is known or read whether
   * the one between is the first of the line. So the end of that one, later, grants at once and needs no reading.
   */
  #scout(ticket: Ticket, readRevision: bigint): (() => void) | undefined {
    const { tickets } = this.#store
    const { second, behind } = ticket
    if (second === undefined || behind === undefined) return undefined
    if (second.create <= tickets.emptyTo(ticket.line)) return undefined
    if (tickets.isOwn(second.key) || tickets.isOwn(behind.key)) return undefined
    // What it missed before it began costs a reading later, no more.
    const begun = (): void => undefined
    const ended = (revision: bigint | undefined): void => {
      if (revision !== undefined && revision <= readRevision) return
      unscout()
      const isFirst = revision !== undefined && second.third <= tickets.emptyTo(ticket.line)
      if (!isFirst) this.#soon(ticket)
      else if (ticket.second?.create === second.create) ticket.second = undefined
    }
    const unscout = this.#ends.listen(second.key, { begun, ended })
    return unscout
  }

  #soon(ticket: Ticket): void {
    if (this.#due.size === 0) queueMicrotask(() => void this.#look())
    this.#due.add(ticket)
  }

  async #look(): Promise<void> {
    const tickets = [...this.#due].filter((ticket) => ticket.create !== undefined && !ticket.granted)
    this.#due.clear()
    if (tickets.length === 0) return
    try {
      const late = await this.#read(tickets, true)
      if (late.length > 0) await this.#read(late, false)
    } catch {
      // The store is out of reach: the tickets' next renewal looks again, and reports the failure.
      return
    }
  }

  /**
   * Asks the member that told of the change, and not a majority: who stands before a ticket can only leave, so
   * where nobody stands before it at any revision since it joined, nobody ever will. Only a reading from before
   * the ticket joined says nothing (another member, far behind): those tickets are returned.
   */
  async #read(tickets: readonly Ticket[], serializable: boolean): Promise<Ticket[]> {
    const { keys } = this.#store
    const answers = await runReads(
      this.#store,
      tickets.map((ticket) => placeReads(keys, ticket, ticket.create, serializable)),
    )
    const late: Ticket[] = []
    for (const [index, ticket] of tickets.entries()) {
      const answer = answers[index]
      if (answer === undefined || ticket.create === undefined) continue
      if (answer.header.revision < ticket.create) late.push(ticket)
      else this.take(ticket, placeFrom(keys, ticket, answer.responses), answer.header.revision, true)
    }
    return late
  }

  /** Takes in where a ticket stands; `tell` when nobody else will. */
  take(ticket: Ticket, place: Place, readRevision: bigint, tell: boolean): void {
    if (ticket.granted || ticket.lapsed || this.#store.tickets.get(ticket.id) !== ticket) return
    if (!place.granted) return this.watch(ticket, place, readRevision)
    this.#store.tickets.grant(ticket)
    if (tell) ticket.pushedAt = performance.now()
    ticket.behind = undefined
    ticket.unwatch?.()
    ticket.unwatch = undefined
    if (tell && ticket.create !== undefined) this.#store.events.granted(ticket.id, ticket.create)
  }
}

/** The same ticket of the line, changed or not. */
function isSame(one: Ticket['behind'], other: Ticket['behind']): boolean {
  return one !== undefined && other !== undefined && one.key === other.key && one.create === other.create
}
