import type { Holder, JoinRequest } from '../../core/backend.js'
import { type LineKey, lineText } from '../../core/line.js'
import type { Second } from './grant.js'
import type { Keys } from './keys.js'
import type { Lease } from './leases.js'
import { KeyPool } from './slots.js'
import type { KeyValue } from './txn.js'

/** What this client knows of a line that it stands in. */
interface Line {
  /** How many tickets it has there. */
  tickets: number
  /** Nobody stands there who joined at this revision or before. */
  emptyTo: bigint
}

/** A ticket of this client, as far as it knows. */
export interface Ticket {
  readonly line: LineKey
  readonly id: string
  readonly key: string
  readonly weight: number
  readonly capacity: number
  holder: Holder
  handle: string
  /** Joins of it that were sent and not answered yet. */
  joining: number
  /** A join of it was never answered, so a copy may still arrive; or its key stands on for another. */
  spoilt: boolean
  /** The create revision: its order and its fence. Undefined while no join was answered. */
  create?: bigint
  /** What its key hangs on; undefined while that is not sure. */
  lease?: Lease
  /** The revision at which it was put there: whoever touched it since left another. */
  mod?: bigint
  granted: boolean
  /** When it was granted by a push, while it waited. */
  pushedAt?: number
  ahead: number
  /** When it is dropped unless core renews it: its lease may be kept by others for longer. */
  untilMs: number
  /** It was not renewed in time, and its drop is on its way: whatever is heard of it now may be over a moment later. */
  lapsed: boolean
  /** What keeps it waiting: the last key before it, where that alone matters. */
  behind?: Pick<KeyValue, 'key' | 'create' | 'mod'> | undefined
  /** What stands before that one, as far as is known. */
  second?: Second | undefined
  /** Ends the watch on what stands before it. */
  unwatch?: (() => void) | undefined
}

/** The tickets of this client, and the drop of those that nobody renews. */
export class Tickets {
  readonly #byId = new Map<string, Ticket>()
  readonly #lines = new Map<string, Line>()
  readonly #pool = new KeyPool()
  readonly #keys: Keys
  readonly #drop: (tickets: Ticket[]) => Promise<void>
  #timer: NodeJS.Timeout | undefined
  #wakeAt = Number.POSITIVE_INFINITY

  constructor(keys: Keys, drop: (tickets: Ticket[]) => Promise<void>) {
    this.#keys = keys
    this.#drop = drop
  }

  get size(): number {
    return this.#byId.size
  }

  /** Whether this client has another ticket in the same line: then it will hardly be free. */
  hasCompany(ticket: Ticket): boolean {
    return (this.#lines.get(lineText(ticket.line))?.tickets ?? 0) > 1
  }

  /** Ours by id, if the caller may speak for it. */
  get(id: string, handle?: string): Ticket | undefined {
    const ticket = this.#byId.get(id)
    return ticket === undefined || (handle !== undefined && handle !== ticket.handle) ? undefined : ticket
  }

  /** The ticket that a join is about. */
  take(request: JoinRequest): Ticket {
    const known = this.#byId.get(request.id)
    if (known !== undefined) return known
    const { line, id, weight, capacity, holder } = request
    const { stem, ending } = this.#keys.shape(line, weight, capacity)
    const ticket: Ticket = {
      line,
      id,
      key: this.#pool.take(stem, ending),
      weight,
      capacity,
      holder,
      handle: id,
      joining: 0,
      spoilt: false,
      granted: false,
      ahead: Number.POSITIVE_INFINITY,
      untilMs: Number.POSITIVE_INFINITY,
      lapsed: false,
    }
    this.#byId.set(id, ticket)
    this.#count(ticket, 1)
    return ticket
  }

  /** A ticket as it was read anew; its key is the one it had, or another client's. */
  replace(ticket: Ticket): void {
    const former = this.#byId.get(ticket.id)
    former?.unwatch?.()
    if (former === undefined) this.#count(ticket, 1)
    ticket.joining = former?.joining ?? 0
    ticket.spoilt = former?.spoilt ?? false
    // The drop of a former handle leaves it alone.
    ticket.lapsed = former?.lapsed === true && former.handle === ticket.handle
    this.#byId.set(ticket.id, ticket)
  }

  remove(ticket: Ticket): void {
    ticket.unwatch?.()
    ticket.unwatch = undefined
    if (this.#byId.get(ticket.id) !== ticket) return
    this.#byId.delete(ticket.id)
    this.#count(ticket, -1)
    if (ticket.spoilt || ticket.joining > 0) this.#pool.rest(ticket.key)
    else this.#pool.free(ticket.key)
  }

  /** The ticket is gone for us, but its key stands for so long: kept after it left, or another's by now. */
  removeButKeep(ticket: Ticket, ms: number): void {
    this.#pool.rest(ticket.key, ms)
    this.remove(ticket)
  }

  /** Whether a ticket of this client stands at that key, or did until now. */
  isOwn(key: string): boolean {
    return this.#pool.has(key)
  }

  /** The ticket is granted: where it holds alone, nobody stands before it any more. */
  grant(ticket: Ticket): void {
    ticket.granted = true
    if (ticket.create !== undefined && holdsAlone(ticket)) this.noteEmpty(ticket.line, ticket.create - 1n)
  }

  /** The ticket's key was deleted. */
  left(ticket: Ticket): void {
    if (ticket.granted && ticket.create !== undefined && holdsAlone(ticket)) this.noteEmpty(ticket.line, ticket.create)
    this.remove(ticket)
  }

  /** Who joined the line at this revision or before stands there no more: an order is given once, so it stays true. */
  emptyTo(line: LineKey): bigint {
    return this.#lines.get(lineText(line))?.emptyTo ?? 0n
  }

  noteEmpty(line: LineKey, revision: bigint): void {
    const known = this.#lines.get(lineText(line))
    if (known !== undefined && known.emptyTo < revision) known.emptyTo = revision
  }

  #count(ticket: Ticket, more: number): void {
    const text = lineText(ticket.line)
    const line = this.#lines.get(text)
    if (line === undefined) this.#lines.set(text, { tickets: more, emptyTo: 0n })
    else if (line.tickets + more === 0) this.#lines.delete(text)
    else line.tickets += more
  }

  on(lease: Lease): Ticket[] {
    return [...this.#byId.values()].filter((ticket) => ticket.lease === lease)
  }

  all(): Iterable<Ticket> {
    return this.#byId.values()
  }

  /** The ticket hangs on this lease, and was renewed by core for as long as that lasts without more. */
  hang(ticket: Ticket, lease: Lease, mod: bigint): void {
    ticket.lease = lease
    ticket.mod = mod
    this.keep(ticket, lease.ttlMs)
  }

  keep(ticket: Ticket, ms: number): void {
    if (ticket.lapsed) return
    ticket.untilMs = performance.now() + ms
    this.#schedule(ticket.untilMs)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#byId.clear()
  }

  #schedule(atMs: number): void {
    if (atMs >= this.#wakeAt) return
    this.#wakeAt = atMs
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#sweep(), Math.max(10, atMs - performance.now()))
    this.#timer.unref()
  }

  #sweep(): void {
    const now = performance.now()
    this.#wakeAt = Number.POSITIVE_INFINITY
    const due: Ticket[] = []
    let next = Number.POSITIVE_INFINITY
    for (const ticket of this.#byId.values()) {
      if (ticket.untilMs <= now) {
        due.push(ticket)
        ticket.lapsed = true
        // Until it is dropped it is tried again.
        ticket.untilMs = now + 1_000
      }
      next = Math.min(next, ticket.untilMs)
    }
    if (next < Number.POSITIVE_INFINITY) this.#schedule(next)
    if (due.length > 0) void this.#drop(due)
  }
}

/** A mutex, or a writer: granted when nobody stands before it. */
function holdsAlone({ line, weight, capacity }: Ticket): boolean {
  return line.kind !== 'semaphore' && weight === capacity
}
