import type { LineKey } from '../../core/line.js'
import { RW_CAPACITY } from '../../core/line.js'
import type { ZooKeeperClient } from './client/client.js'
import { CODE, type ZooKeeperError } from './client/errors.js'
import { EVENT } from './client/protocol.js'
import type { Watcher } from './client/watches.js'
import { bySeq, type Node, parseNode } from './names.js'

/** Making sure takes at most one part in so many of the time. */
const REST = 50

/** A ticket of this client's session. */
export interface OwnTicket {
  readonly id: string
  readonly line: LocalLine
  readonly node: Node
  readonly path: string
  readonly order: bigint
  /** standing: created, but the line was not seen since. */
  state: 'standing' | 'waiting' | 'granted' | 'lost'
  /** Somebody asked to delete its node: that it goes is no surprise. */
  leaving: boolean
  /** Whoever joined with it was told where it stands; from then on a grant is news. */
  answered?: boolean
  /** Nobody wants it any more, though its node may still stand. */
  unwanted?: boolean
  /** Set while its own node is watched, so that an eviction is noticed. */
  watcher?: Watcher
}

/** A line's name in maps. */
export function lineKey({ kind, name }: LineKey): string {
  return `${kind}:${name}`
}

/** One node of the line as far as this client knows. */
interface Place extends Node {
  own?: OwnTicket
  watcher?: Watcher
  /** This user may not read it, and is not told of its end. */
  unreadable?: boolean
  /** Those of ours that cannot be granted before this one (or another of their guards) has left. */
  dependents?: Set<Place>
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
export class LocalLine {
  readonly path: string
  readonly key: string
  /** Joins under way: they need it although no ticket may stand yet. */
  users = 0
  readonly #line: LineKey
  readonly #client: ZooKeeperClient
  readonly #events: LineEvents
  /** In order; nothing behind our last ticket. */
  #places: Place[] = []
  readonly #own = new Map<string, OwnTicket>()
  /** Every node up to this number that may still stand is in `#places`. */
  #knownTo: number | undefined
  /** Whether the last ticket came right after all that was known: then the next one may as well. */
  #quiet = false
  #parentWatcher: Watcher | undefined
  /** Set while the list of nodes is watched, for the sake of those that may not be read. */
  #listWatcher: Watcher | undefined
  /** Whether the server has set the watch on the parent. Only then may what is known outlive our last ticket here. */
  #parentWatched = false
  #asking = false
  #listedAt = Number.NEGATIVE_INFINITY
  #listMs = 0

  constructor(client: ZooKeeperClient, line: LineKey, path: string, events: LineEvents) {
    this.#client = client
    this.#line = line
    this.path = path
    this.key = lineKey(line)
    this.#events = events
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
    return this.#indexOf(ticket.node)
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
    return this.quiet && this.#places.length === 0
  }

  /** Whether what is known outlives our last ticket here. */
  get worthKeeping(): boolean {
    return this.#parentWatched && this.#knownTo !== undefined
  }

  /** Notes a ticket that the server has just created. It is judged at once if nobody can have come before it, else by the next list. */
  stand(ticket: OwnTicket): void {
    this.#own.set(ticket.node.name, ticket)
    const last = this.#places.at(-1)
    const { name, seq, weight, capacity, id } = ticket.node
    const place: Place = { name, seq, weight, capacity, id, own: ticket }
    this.#places.push(place)
    if (last !== undefined && bySeq(last, ticket.node) > 0) this.#places.sort(bySeq)
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
    if (this.#parentWatcher !== undefined) return
    const watcher: Watcher = () => this.#parentGone()
    this.#parentWatcher = watcher
    this.#client.getData(this.path, watcher, (error) => {
      if (this.#parentWatcher !== watcher) return
      if (error === undefined) this.#parentWatched = true
      else this.#parentGone()
    })
  }

  #parentGone(): void {
    this.#parentWatcher = undefined
    this.#parentWatched = false
    if (this.#own.size > 0) return
    this.#knownTo = undefined
    this.#places = []
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
    const at = this.#indexOf(node)
    const place = this.#places[at]
    if (place?.name !== node.name) return
    this.#places.splice(at, 1)
    this.#forget(place)
    if (this.#own.size === 0) return
    if (this.#knownTo !== undefined) return this.#settle(place.dependents ?? [], false)
    // One of ours was evicted: nothing is concluded before the line was read.
    for (const own of this.#own.values()) if (own.state === 'waiting') own.state = 'standing'
    this.refresh()
  }

  /** Nothing here concerns the client any more. */
  drop(): void {
    for (const place of this.#places) this.#unwatch(place)
    this.#places = []
    this.#own.clear()
    this.#knownTo = undefined
    const { watches } = this.#client.session
    if (this.#listWatcher !== undefined) watches.remove('child', this.path, this.#listWatcher)
    this.#listWatcher = undefined
    if (this.#parentWatcher === undefined) return
    watches.remove('data', this.path, this.#parentWatcher)
    this.#parentWatcher = undefined
    this.#parentWatched = false
  }

  #apply(children: readonly string[]): void {
    const known = new Map(this.#places.map((place) => [place.name, place]))
    const places: Place[] = []
    let last: Place | undefined
    for (const name of children) {
      const place: Place | undefined = known.get(name) ?? parseNode(this.#line.kind, name)
      if (place === undefined) continue
      known.delete(name)
      places.push(place)
      if (place.own === undefined) continue
      if (place.own.state === 'standing') place.own.state = 'waiting'
      if (last === undefined || bySeq(last, place) < 0) last = place
    }
    const end = last
    this.#knownTo = end?.seq
    this.#places = end === undefined ? [] : places.filter((place) => bySeq(place, end) <= 0).sort(bySeq)
    for (const place of this.#places) delete place.dependents
    for (const place of known.values()) this.#forget(place)
    this.#settle(this.#places, true)
  }

  #forget(place: Place): void {
    this.#unwatch(place)
    const { own } = place
    if (own === undefined || !this.#own.delete(place.name)) return
    own.state = 'lost'
    // The parent may go now, and come again with the same numbers, unless we would hear of it.
    if (this.#own.size === 0 && !this.#parentWatched) this.#knownTo = undefined
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
    const granted: OwnTicket[] = []
    let sum = 0
    for (const { weight, capacity, own } of this.#places) {
      sum += weight
      if (sum > capacity) break
      if (own?.state !== 'waiting') continue
      own.state = 'granted'
      granted.push(own)
    }
    let unknown = false
    let lastWrite: Place | undefined
    for (const place of waiters) {
      if (place.own?.state === 'waiting') {
        const guards = this.#guards(place, fresh ? lastWrite : undefined)
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
    if (fresh) this.#watch(guard)
    return fresh
  }

  /**
   * The places of which one must leave before this ticket can be granted: the nearest ones that together
   * leave it no room. For a mutex and a writer that is its predecessor, for a reader the last writer before
   * it, for a semaphore at most `capacity` nodes. Were all of them still there, the weights up to the
   * ticket would exceed its capacity; so as long as none has left, no look is needed.
   */
  #guards(place: Place, lastWrite: Place | undefined): readonly Place[] {
    const reading = this.#line.kind === 'rw' && place.weight < RW_CAPACITY
    if (reading && lastWrite !== undefined) return [lastWrite]
    const guards: Place[] = []
    let room = place.capacity - place.weight
    for (let at = this.#indexOf(place) - 1; at >= 0 && room >= 0; at -= 1) {
      const before = this.#places[at]!
      if (reading && before.weight < RW_CAPACITY) continue
      guards.push(before)
      room -= before.weight
    }
    return guards
  }

  /** Where a node stands, or would. */
  #indexOf(node: Pick<Node, 'seq'>): number {
    let [low, high] = [0, this.#places.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (bySeq(this.#places[middle]!, node) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  #watch(place: Place): void {
    if (place.unreadable === true) return this.#watchList()
    const watcher: Watcher = ({ type }) => {
      delete place.watcher
      if (type === EVENT.deleted) this.gone(place)
      else this.refresh()
    }
    place.watcher = watcher
    this.#client.getData(`${this.path}/${place.name}`, watcher, (error) => {
      if (error === undefined) return
      delete place.watcher
      // A broken connection reads all lines again once it is back.
      if (error.code === CODE.noNode) this.gone(place)
      if (error.code !== CODE.noAuth) return
      place.unreadable = true
      this.#watchList()
    })
  }

  /**
   * The servers tell nobody of the end of a node that he may not read, but whoever may list the line is told that it
   * changed: every time that somebody comes or goes, until none of those he waits for is such a node.
   */
  #watchList(): void {
    if (this.#listWatcher !== undefined) return
    const watcher: Watcher = () => {
      this.#listWatcher = undefined
      this.refresh()
    }
    this.#listWatcher = watcher
    const replied = (error: ZooKeeperError | undefined): void => {
      if (error !== undefined && this.#listWatcher === watcher) this.#listWatcher = undefined
    }
    this.refresh(replied, watcher)
  }

  #unwatch(place: Place): void {
    if (place.watcher === undefined) return
    this.#client.session.watches.remove('data', `${this.path}/${place.name}`, place.watcher)
    delete place.watcher
  }
}
