import type { LineKey } from '../../core/line.js'
import { RW_CAPACITY } from '../../core/line.js'
import type { ZooKeeperClient } from './client/client.js'
import { CODE, type ZooKeeperError } from './client/errors.js'
import { EVENT } from './client/protocol.js'
import type { Watcher } from './client/watches.js'
import { bySeq, type Node, parseNode } from './names.js'

/** A ticket of this client's session. */
export interface OwnTicket {
  readonly id: string
  readonly line: LineKey
  readonly node: Node
  readonly path: string
  readonly order: bigint
  /** standing: created, but the line was not seen since. */
  state: 'standing' | 'waiting' | 'granted' | 'lost'
  /** Somebody asked to delete its node: that it goes is no surprise. */
  leaving: boolean
  /** Nobody wants it any more, though its node may still stand. */
  unwanted?: boolean
  /** Set while its own node is watched, so that an eviction is noticed. */
  watcher?: Watcher
}

/** A path that is shared with Curator may be both a mutex and a read-write lock. */
export function lineKey(line: LineKey, path: string): string {
  return `${line.kind}:${path}`
}

/** One node of the line as far as this client knows. */
interface Place extends Node {
  own?: OwnTicket
  watcher?: Watcher
}

export interface LineEvents {
  granted(ticket: OwnTicket): void
  lost(ticket: OwnTicket): void
}

/**
 * What this client knows of a line in which it has tickets.
 *
 * Before a ticket of ours nobody can come, for numbers only grow: those ahead can only leave. So the nodes
 * seen once ahead of it, less those that are known to have left, always hold all that still stand ahead; when
 * none is left that counts, the ticket is granted, and no question is needed to know it. Tickets of this same
 * client leave under our eyes and need no watch.
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
  #asking = false

  constructor(client: ZooKeeperClient, line: LineKey, path: string, events: LineEvents) {
    this.#client = client
    this.#line = line
    this.path = path
    this.key = lineKey(line, path)
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
    return Math.max(
      0,
      this.#places.findIndex(({ name }) => name === ticket.node.name),
    )
  }

  /** Notes a ticket that the server has just created. It is judged by the next list. */
  stand(ticket: OwnTicket): void {
    this.#own.set(ticket.node.name, ticket)
    const last = this.#places.at(-1)
    this.#places.push({ ...ticket.node, own: ticket })
    if (last !== undefined && bySeq(last, ticket.node) > 0) this.#places.sort(bySeq)
  }

  /** Reads the whole line, and judges by it. `reply` is called after that. */
  refresh(reply?: (error: ZooKeeperError | undefined) => void): void {
    this.#asking = true
    this.#client.getChildren(this.path, undefined, (error, children) => {
      this.#asking = false
      // Not there any more: then neither are our tickets. Other errors say nothing; the session reads again.
      if (error === undefined || error.code === CODE.noNode) this.#apply(children ?? [])
      reply?.(error)
    })
  }

  /** A node has left, ours or another's. */
  gone(name: string): void {
    const at = this.#places.findIndex((place) => place.name === name)
    if (at === -1) return
    const [place] = this.#places.splice(at, 1)
    this.#forget(place!)
    this.#settle(false)
  }

  /** Nothing here concerns the client any more. */
  drop(): void {
    for (const place of this.#places) this.#unwatch(place)
    this.#places = []
    this.#own.clear()
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
    for (const place of known.values()) this.#forget(place)
    const end = last
    this.#places = end === undefined ? [] : places.filter((place) => bySeq(place, end) <= 0).sort(bySeq)
    this.#settle(true)
  }

  #forget(place: Place): void {
    this.#unwatch(place)
    const { own } = place
    if (own === undefined || !this.#own.delete(place.name)) return
    own.state = 'lost'
    if (!own.leaving) this.#events.lost(own)
  }

  /** The grant rule over what is known, and a watch on what can change its answer. `fresh`: the line was just read. */
  #settle(fresh: boolean): void {
    let sum = 0
    let open = true
    let lastWrite: Place | undefined
    let unknown = false
    const granted: OwnTicket[] = []
    for (const [index, place] of this.#places.entries()) {
      sum += place.weight
      if (sum > place.capacity) open = false
      const { own } = place
      if (own?.state === 'waiting') {
        if (open) {
          own.state = 'granted'
          granted.push(own)
        } else {
          for (const guard of this.#guards(index, place, lastWrite)) {
            if (guard.own !== undefined || guard.watcher !== undefined) continue
            if (fresh) this.#watch(guard)
            else unknown = true
          }
        }
      }
      if (place.weight === RW_CAPACITY) lastWrite = place
    }
    // Whom to watch next is somebody we heard of long ago. In a line that moves he has most likely left, with
    // all between: one list tells, where asking for one after the other would take as many requests.
    if (unknown && !this.#asking) this.refresh()
    for (const ticket of granted) this.#events.granted(ticket)
  }

  /**
   * The places of which one must leave before this ticket can be granted: the nearest ones that together
   * leave it no room. For a mutex and a writer that is its predecessor, for a reader the last writer before
   * it, for a semaphore at most `capacity` nodes. Were all of them still there, the weights up to the
   * ticket would exceed its capacity; so as long as none has left, no look is needed.
   */
  #guards(index: number, place: Place, lastWrite: Place | undefined): readonly Place[] {
    if (this.#line.kind === 'rw' && place.weight < RW_CAPACITY && lastWrite !== undefined) return [lastWrite]
    const guards: Place[] = []
    let room = place.capacity - place.weight
    for (let at = index - 1; at >= 0 && room >= 0; at -= 1) {
      const before = this.#places[at]!
      guards.push(before)
      room -= before.weight
    }
    return guards
  }

  #watch(place: Place): void {
    const watcher: Watcher = ({ type }) => {
      delete place.watcher
      if (type === EVENT.deleted) this.gone(place.name)
      else this.refresh()
    }
    place.watcher = watcher
    this.#client.getData(`${this.path}/${place.name}`, watcher, (error) => {
      if (error === undefined) return
      delete place.watcher
      // A broken connection reads all lines again once it is back.
      if (error.code === CODE.noNode) this.gone(place.name)
    })
  }

  #unwatch(place: Place): void {
    if (place.watcher === undefined) return
    this.#client.session.watches.remove('data', `${this.path}/${place.name}`, place.watcher)
    delete place.watcher
  }
}
