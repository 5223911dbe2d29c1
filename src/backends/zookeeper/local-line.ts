import { type LineKey, RW_CAPACITY } from '../../core/line.js'
import type { ZooKeeperClient } from './client/client.js'
import { CODE, type ZooKeeperError } from './client/errors.js'
import type { Watcher } from './client/watches.js'
import { KnownPlaces, type Place } from './known-places.js'
import { LineWatches, type WatchedLine } from './line-watches.js'
import type { Node } from './names.js'
import type { OwnTicket } from './own-ticket.js'

/** Making sure takes at most one part in so many of the time. */
const REST = 50

/** A line's name in maps. */
export function lineKey({ kind, name }: LineKey): string {
  return `${kind}:${name}`
}

export interface LineEvents {
  granted(ticket: OwnTicket): void
  lost(ticket: OwnTicket): void
  /** Nothing of what was known of it is known any more. */
  idle(line: LocalLine): void
}

/**
 * What this client knows of a line in which it has tickets.
 *
 * Before a ticket of ours nobody can come, for numbers only grow: those ahead can only leave. So the nodes
 * seen once ahead of it, less those that are known to have left, always hold all that still stand ahead; when
 * none is left that counts, the ticket is granted, and no question is needed to know it. Tickets of this same
 * client leave under our eyes and need no watch.
 *
 * A parent numbers its children without gaps. So where a ticket of ours has the very next number after all
 * that is known, nobody came between, and the line need not be read at all: that is how a lock that only we
 * use, or many waiters of one process, cost no more than their nodes. It holds for one life of the parent,
 * which cannot end while a ticket of ours stands below it; where none does, a watch on the parent tells.
 *
 * All of it relies on answers being noted in the order of the requests (see `ZooKeeperClient`).
 */
export class LocalLine implements WatchedLine {
  readonly path: string
  readonly key: string
  /** Joins under way: they need it although no ticket may stand yet. */
  users = 0
  readonly #client: ZooKeeperClient
  readonly #events: LineEvents
  readonly #watches: LineWatches
  readonly #places: KnownPlaces
  readonly #own = new Map<string, OwnTicket>()
  /** Every node up to this number that may still stand is in `#places`. */
  #knownTo: number | undefined
  /** Whether the last ticket came right after all that was known: then the next one may as well. */
  #quiet = false
  #asking = false
  #listedAt = Number.NEGATIVE_INFINITY
  #listMs = 0

  constructor(client: ZooKeeperClient, line: LineKey, path: string, events: LineEvents) {
    this.#client = client
    this.path = path
    this.key = lineKey(line)
    this.#events = events
    this.#places = new KnownPlaces(line.kind)
    this.#watches = new LineWatches(client, this)
  }

  /** How many tickets of this client stand here. */
  get size(): number {
    return this.#own.size
  }

  tickets(): Iterable<OwnTicket> {
    return this.#own.values()
  }

  /** How many nodes stand before a ticket, as far as is known. */
  ahead(ticket: OwnTicket): number {
    return this.#places.ahead(ticket.node)
  }

  /** Whether the next ticket can most likely be judged without reading the line. */
  get quiet(): boolean {
    return this.#quiet && this.#knownTo !== undefined
  }

  /** Whether the line is being read. */
  get asking(): boolean {
    return this.#asking
  }

  /** Whether nobody stood here when we last knew, and most likely nobody has come since. */
  get free(): boolean {
    return this.quiet && this.#places.all.length === 0
  }

  /** Whether what is known outlives our last ticket here: only where we would hear of the parent's end. */
  get worthKeeping(): boolean {
    return this.#watches.parentWatched && this.#knownTo !== undefined
  }

  /** Notes a ticket that the server has just created. It is judged at once if nobody can have come before it, else by the next list. */
  stand(ticket: OwnTicket): void {
    this.#own.set(ticket.node.name, ticket)
    const place = this.#places.add(ticket)
    this.#quiet = this.#knownTo !== undefined && ((this.#knownTo + 1) | 0) === ticket.node.seq
    if (!this.#quiet) return
    this.#knownTo = ticket.node.seq
    ticket.state = 'waiting'
    this.#settle([place], false)
  }

  /**
   * Watches the parent of a line that is used again and again. To be sent behind a ticket's creation: its node
   * keeps the parent from going before the watch is set.
   */
  keep(): void {
    this.#watches.watchParent()
  }

  parentGone(): void {
    if (this.#own.size > 0) return
    this.#knownTo = undefined
    this.#places.clear()
    this.#events.idle(this)
  }

  /** Reads the whole line, and judges by it. `reply` is called after that. */
  refresh(reply?: (error: ZooKeeperError | undefined) => void, watcher?: Watcher): void {
    this.#asking = true
    const askedAt = performance.now()
    this.#client.getChildren(this.path, watcher, (error, children) => {
      this.#asking = false
      // Not there any more: then neither are our tickets. Other errors say nothing; the session reads again.
      if (error === undefined || error.code === CODE.noNode) this.#apply(children ?? [])
      this.#listedAt = performance.now()
      this.#listMs = this.#listedAt - askedAt
      reply?.(error)
    })
  }

  /**
   * Reads the line unless that was done lately: the watches tell of every change, this only makes sure. A line
   * of thousands takes long to read, so it is read more rarely.
   */
  lookAgain(maxAgeMs: number): void {
    const ageMs = performance.now() - this.#listedAt
    if (!this.#asking && ageMs > maxAgeMs && ageMs > this.#listMs * REST) this.refresh()
  }

  /** A node has left, ours or another's. */
  gone(node: Node): void {
    const place = this.#places.remove(node)
    if (place === undefined) return
    this.#forget(place)
    if (this.#own.size === 0) return
    if (this.#knownTo !== undefined) return this.#settle(place.dependents ?? [], false)
    // One of ours was evicted: nothing is concluded before the line was read.
    for (const own of this.#own.values()) if (own.state === 'waiting') own.state = 'standing'
    this.refresh()
  }

  /** Nothing here concerns the client any more. */
  drop(): void {
    for (const place of this.#places.all) this.#watches.unwatch(place)
    this.#places.clear()
    this.#own.clear()
    this.#knownTo = undefined
    this.#watches.drop()
  }

  #apply(children: readonly string[]): void {
    const left = this.#places.read(children)
    // Our last ticket: behind it nothing is known.
    this.#knownTo = this.#places.all.at(-1)?.seq
    for (const place of left) this.#forget(place)
    this.#settle(this.#places.all, true)
  }

  #forget(place: Place): void {
    this.#watches.unwatch(place)
    const { own } = place
    if (own === undefined || !this.#own.delete(place.name)) return
    own.state = 'lost'
    // The parent may go now, and come again with the same numbers, unless we would hear of it.
    if (this.#own.size === 0 && !this.#watches.parentWatched) this.#knownTo = undefined
    if (own.leaving) return
    // Evicted. What was concluded from its standing there, that the parent is still the same, is void.
    this.#knownTo = undefined
    this.#events.lost(own)
  }

  /**
   * The grant rule over what is known, from the head as far as it grants; then a watch on what can change the
   * answer for those that `waiters` names. `fresh`: the line was just read.
   */
  #settle(waiters: Iterable<Place>, fresh: boolean): void {
    const granted = this.#places.grant()
    let unknown = false
    let lastWrite: Place | undefined
    for (const place of waiters) {
      if (place.own?.state === 'waiting') {
        const guards = this.#places.guards(place, fresh ? lastWrite : undefined)
        for (const guard of guards) if (!this.#depend(place, guard, fresh)) unknown = true
      }
      if (place.weight === RW_CAPACITY) lastWrite = place
    }
    // Whom to watch next is somebody we heard of long ago. In a line that moves he has most likely left, with
    // all between: one list tells, where asking for one after the other would take as many requests.
    if (unknown && !this.#asking) this.refresh()
    for (const ticket of granted) this.#events.granted(ticket)
  }

  /** False when the guard is somebody who may have left long ago. */
  #depend(place: Place, guard: Place, fresh: boolean): boolean {
    guard.dependents ??= new Set()
    guard.dependents.add(place)
    if (guard.own !== undefined || guard.watcher !== undefined) return true
    if (fresh) this.#watches.watch(guard)
    return fresh
  }
}
