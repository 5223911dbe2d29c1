import type { Holder, JoinRequest, Standing } from '../../core/backend.js'
import type { LineKey } from '../../core/line.js'
import { type LineStore, type Snapshot, secondsFor, setCommand, type Step, valueOf } from './line-store.js'
import { append, type Entry, find, grantedEntries, isGranted, type LineValue, without } from './line-value.js'
import type { OwnTickets } from './own-tickets.js'

/** How many entries from the head are asked at once whether they still live. */
export const HEAD = 64

/**
 * Stands in one line. Each ticket's key is stored just before the line that lists it: the other way round,
 * others would see a ticket without a life and drop it.
 */
export async function joinLine(
  store: LineStore,
  own: OwnTickets,
  line: LineKey,
  requests: readonly JoinRequest[],
): Promise<Standing[]> {
  const join = new Join(store, requests)
  const remembered = own.line(line)?.snapshot ?? (await store.assumedEmpty(line))
  const askedAt = performance.now()
  const snapshot = await store.change(line, remembered, (seen, fresh) => join.decide(seen, fresh))
  await join.tidy(snapshot)
  const standings = requests.map((request) => {
    const standing = standingOf(request, snapshot, join.gone.has(request.id))
    if (standing.state === 'granted' || standing.state === 'waiting') {
      const { id } = request
      const granted = standing.state === 'granted'
      own.put(line, { id, handle: id, granted, leasedUntil: askedAt + standing.ttlMs })
    }
    return standing
  })
  own.absorb(snapshot, askedAt)
  return standings
}

/** What is left of a batch of joins while its line is being changed. */
class Join {
  readonly #store: LineStore
  readonly #requests: readonly JoinRequest[]
  /** Ids that answer `gone`: a leave came first. */
  readonly gone = new Set<string>()
  /** Ids whose key was stored at some try. */
  readonly #stored = new Set<string>()
  /** Handles of tickets that were taken over. */
  readonly #dropped = new Set<string>()

  constructor(store: LineStore, requests: readonly JoinRequest[]) {
    this.#store = store
    this.#requests = requests
  }

  async decide(seen: Snapshot, fresh: boolean): Promise<Step> {
    this.gone.clear()
    let base = await this.#withoutTakenOver(seen)
    let draft = this.#draft(base)
    // What is remembered may say no because of tickets that left long ago.
    if (!fresh && this.#refused(draft)) return 'read'
    // Before a no, everyone who is in the way is asked whether they still live.
    for (let asked = 0; this.#refused(draft) && asked < Math.min(mayBlock(base), base.entries.length); ) {
      const head = base.entries.slice(asked, asked + HEAD)
      const dead = await this.#store.dead(head, seen.connection)
      base = without(base, (entry) => dead.includes(entry))
      draft = this.#draft(base)
      asked += head.length - dead.length
    }
    const stands = this.#requests.some(({ id }) => find(draft, id) !== undefined)
    if (!stands && this.#dropped.size === 0) return 'keep'
    const write = fresh ? await this.#withoutOldTombstones(draft, seen) : draft
    return { write, before: this.#ticketCommands(draft) }
  }

  /** Deletes the keys of what does not stand after all, or was driven out. */
  async tidy(snapshot: Snapshot): Promise<void> {
    const absent = [...this.#stored].filter((id) => find(snapshot.value, id) === undefined)
    const handles = [...absent, ...this.#dropped]
    await snapshot.connection.send(handles.map((handle) => `md ${this.#store.keys.ticket(handle)}`))
  }

  /** The line with those of the requests at its end that may stand there. */
  #draft(base: LineValue): LineValue {
    let draft = base
    for (const request of this.#requests) {
      const entry = find(draft, request.id)
      // Under another handle it was handed over, and is no longer this caller's.
      if (entry !== undefined && entry.handle !== request.id) this.gone.add(request.id)
      if (entry !== undefined) continue
      if (draft.tombstones.some(({ id }) => id === request.id)) {
        this.gone.add(request.id)
        continue
      }
      const longer = append(draft, request)
      if (request.wait || isGranted(longer, find(longer, request.id)!)) draft = longer
    }
    return draft
  }

  #refused(draft: LineValue): boolean {
    return this.#requests.some(({ id, wait }) => !wait && !this.gone.has(id) && find(draft, id) === undefined)
  }

  /**
   * An id that stands already is stored again with the line. Without that, a ticket whose key had expired could
   * be revived here while another client, that saw it dead, is about to store the line without it.
   */
  #ticketCommands(draft: LineValue): string[] {
    const commands: string[] = []
    for (const request of this.#requests) {
      const entry = find(draft, request.id)
      if (entry === undefined || entry.left || this.gone.has(request.id)) continue
      this.#stored.add(request.id)
      const ms = isGranted(draft, entry) ? request.ttlMs : request.waitTtlMs
      commands.push(ticketCommand(this.#store, entry.handle, request.holder, ms))
    }
    return commands
  }

  async #withoutTakenOver(seen: Snapshot): Promise<LineValue> {
    this.#dropped.clear()
    // Once: a copy of the join that arrives later must not drop who came after it.
    const isKnown = (id: string): boolean =>
      find(seen.value, id) !== undefined || seen.value.tombstones.some((tombstone) => tombstone.id === id)
    const takers = this.#requests.filter(({ takeover, id }) => takeover && !isKnown(id))
    const others = seen.value.entries.filter(({ left }) => !left)
    if (takers.length === 0 || others.length === 0) return seen.value
    const holders = await readHolders(this.#store, others, seen)
    const dropped = others.filter((_, index) => {
      const holder = holders[index]
      return takers.some((taker) => taker.holder.owner === holder?.owner && taker.holder.client !== holder.client)
    })
    for (const { handle } of dropped) this.#dropped.add(handle)
    return without(seen.value, (entry) => dropped.includes(entry))
  }

  async #withoutOldTombstones(line: LineValue, seen: Snapshot): Promise<LineValue> {
    if (line.tombstones.length === 0) return line
    return { ...line, tombstones: await this.#store.lasting(line.tombstones, seen.connection) }
  }
}

/** How far from the head those stand who can be in the way: the holders, and the first that waits. */
function mayBlock(line: LineValue): number {
  return grantedEntries(line).length + 1
}

function standingOf(request: JoinRequest, snapshot: Snapshot, gone: boolean): Standing {
  const entry = find(snapshot.value, request.id)
  if (gone) return { state: 'gone' }
  if (entry === undefined) return { state: 'refused' }
  // Left, and kept for its minHold: it is not to be had again.
  if (entry.left) return { state: 'gone' }
  if (isGranted(snapshot.value, entry)) {
    return { state: 'granted', order: BigInt(entry.order), ttlMs: request.ttlMs }
  }
  return waiting(snapshot.value, entry, request.waitTtlMs)
}

/** The poll looks by itself (see watch.ts), so a renewal of the waiting lease is early enough. */
export function waiting(line: LineValue, entry: Entry, ttlMs: number): Standing {
  return { state: 'waiting', ahead: line.entries.indexOf(entry), ttlMs, lookAgainMs: ttlMs }
}

/** Stores a ticket's own key: it lives as long as the lease, and holds who stands behind it. */
export function ticketCommand(store: LineStore, handle: string, holder: Holder, ms: number): string {
  return setCommand(store.keys.ticket(handle), JSON.stringify(holder), secondsFor(ms))
}

/** Who stands behind each of these entries; undefined for those that no longer live. */
export async function readHolders(
  store: LineStore,
  entries: readonly Entry[],
  snapshot: Snapshot,
): Promise<(Holder | undefined)[]> {
  const replies = await snapshot.connection.send(entries.map((entry) => `mg ${store.keys.life(entry)} v`))
  return replies.map((reply) => {
    const value = valueOf(reply)
    return value === undefined ? undefined : (JSON.parse(value.toString('utf8')) as Holder)
  })
}
