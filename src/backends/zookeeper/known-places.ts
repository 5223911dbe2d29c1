import { type Kind, RW_CAPACITY } from '../../core/line.js'
import type { Watcher } from './client/watches.js'
import { bySeq, type Node, parseNode } from './names.js'
import type { OwnTicket } from './own-ticket.js'

/** One node of the line as far as this client knows. */
export interface Place extends Node {
  own?: OwnTicket
  watcher?: Watcher
  /** This user may not read it, and is not told of its end. */
  unreadable?: boolean
  /** Those of ours that cannot be granted before this one (or another of their guards) has left. */
  dependents?: Set<Place>
}

/** The nodes of a line that are known, in their order, and the grant rule over them. Nothing behind our last ticket. */
export class KnownPlaces {
  readonly #kind: Kind
  #places: Place[] = []

  constructor(kind: Kind) {
    this.#kind = kind
  }

  get all(): readonly Place[] {
    return this.#places
  }

  /** How many nodes stand before this one, as far as is known. */
  ahead(node: Pick<Node, 'seq'>): number {
    let [low, high] = [0, this.#places.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (bySeq(this.#places[middle]!, node) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  /** A ticket of ours takes its place. */
  add(ticket: OwnTicket): Place {
    const last = this.#places.at(-1)
    const { name, seq, weight, capacity, id } = ticket.node
    const place: Place = { name, seq, weight, capacity, id, own: ticket }
    this.#places.push(place)
    if (last !== undefined && bySeq(last, place) > 0) this.#places.sort(bySeq)
    return place
  }

  /** The place that the node had; undefined: none. */
  remove(node: Node): Place | undefined {
    const at = this.ahead(node)
    const place = this.#places[at]
    if (place?.name !== node.name) return undefined
    this.#places.splice(at, 1)
    return place
  }

  /** The line was read: its nodes up to our last ticket are what is known now. Returns those that are there no more. */
  read(children: readonly string[]): Iterable<Place> {
    const known = new Map(this.#places.map((place) => [place.name, place]))
    const places: Place[] = []
    let last: Place | undefined
    for (const name of children) {
      const place: Place | undefined = known.get(name) ?? parseNode(this.#kind, name)
      if (place === undefined) continue
      known.delete(name)
      places.push(place)
      if (place.own === undefined) continue
      if (place.own.state === 'standing') place.own.state = 'waiting'
      if (last === undefined || bySeq(last, place) < 0) last = place
    }
    const end = last
    this.#places = end === undefined ? [] : places.filter((place) => bySeq(place, end) <= 0).sort(bySeq)
    for (const place of this.#places) delete place.dependents
    return known.values()
  }

  clear(): void {
    this.#places = []
  }

  /** The grant rule, from the head as far as it grants. Returns those of ours that are granted by it now. */
  grant(): OwnTicket[] {
    const granted: OwnTicket[] = []
    let sum = 0
    for (const { weight, capacity, own } of this.#places) {
      sum += weight
      if (sum > capacity) break
      if (own?.state !== 'waiting') continue
      own.state = 'granted'
      granted.push(own)
    }
    return granted
  }

  /**
   * The places of which one must leave before this ticket can be granted: the nearest ones that together
   * leave it no room. For a mutex and a writer that is its predecessor, for a reader the last writer before
   * it, for a semaphore at most `capacity` nodes. Were all of them still there, the weights up to the
   * ticket would exceed its capacity; so as long as none has left, no look is needed.
   * `lastWrite`: the last writer before it, where that is known already.
   */
  guards(place: Place, lastWrite: Place | undefined): readonly Place[] {
    const reading = this.#kind === 'rw' && place.weight < RW_CAPACITY
    if (reading && lastWrite !== undefined) return [lastWrite]
    const guards: Place[] = []
    let room = place.capacity - place.weight
    for (let at = this.ahead(place) - 1; at >= 0 && room >= 0; at -= 1) {
      const before = this.#places[at]!
      if (reading && before.weight < RW_CAPACITY) continue
      guards.push(before)
      room -= before.weight
    }
    return guards
  }
}
