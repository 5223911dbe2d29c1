import type { JoinRequest } from '../../core/backend.js'
import { Entry } from './entry.js'

/** Longer than core asks about a ticket, or says that it leaves, once its lease is over. */
const SWEEP_MS = 60_000

/** The tickets of this client. */
export class Entries {
  readonly #entries = new Map<string, Entry>()
  #sweptAt = performance.now()

  get size(): number {
    return this.#entries.size
  }

  get(id: string): Entry | undefined {
    return this.#entries.get(id)
  }

  /** The entry of that id: the one there is, or a new one. */
  enter(request: JoinRequest): Entry {
    let entry = this.#entries.get(request.id)
    if (entry === undefined) this.#entries.set(request.id, (entry = new Entry(request)))
    return entry
  }

  forget({ request }: Entry): void {
    this.#entries.delete(request.id)
  }

  /** Those that have these tickets on the servers. */
  withTickets(tickets: readonly string[]): Entry[] {
    return [...this.#entries.values()].filter(({ ticket }) => tickets.includes(ticket))
  }

  /**
   * Now and then, those that nobody asked about for long and whose lease has ended: their hold lapsed without a release,
   * or no majority could be told that they left.
   */
  lapsed(now: number): readonly Entry[] {
    if (now - this.#sweptAt < SWEEP_MS) return NONE
    this.#sweptAt = now
    return [...this.#entries.values()].filter(({ askedAt, until }) => now - Math.max(askedAt, until) > SWEEP_MS)
  }
}

const NONE: readonly Entry[] = []
