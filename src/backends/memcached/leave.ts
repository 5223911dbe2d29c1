import type { LeaveRequest } from '../../core/backend.js'
import type { LineKey } from '../../core/line.js'
import { readHolders } from './join.js'
import {
  isMiss,
  LEAVING_EAGER_TRIES,
  type LineStore,
  type Snapshot,
  secondsFor,
  setCommand,
  type Step,
} from './line-store.js'
import { type Entry, find, type LineValue, replace, without } from './line-value.js'
import type { OwnTickets } from './own-tickets.js'

/**
 * Leaves one line. The ticket's own key goes first: from then on everybody sees it dead, also when this client
 * dies before the line is stored without it. Nobody else has that key, so this is no blind delete.
 */
export async function leaveLine(
  store: LineStore,
  own: OwnTickets,
  line: LineKey,
  requests: readonly LeaveRequest[],
): Promise<boolean[]> {
  const askedAt = performance.now()
  const again = new Set<string>()
  for (const { id } of requests) {
    const ticket = own.ticket(line, id)
    if (ticket?.leaving === true) again.add(id)
    if (ticket !== undefined) ticket.leaving = true
  }
  const leave = new Leave(store, requests, again)
  const snapshot = await store.change(
    line,
    own.line(line)?.snapshot,
    (seen, fresh) => leave.decide(seen, fresh),
    LEAVING_EAGER_TRIES,
  )
  await leave.tidy(snapshot)
  // Before the ticket is forgotten, or the line may be: whom the leave granted is told from what was just stored.
  own.absorb(snapshot, askedAt)
  for (const { id } of requests) own.forget(line, id)
  return requests.map(({ id }) => leave.stood.has(id))
}

/** What is left of a batch of leaves while its line is being changed. */
class Leave {
  readonly #store: LineStore
  readonly #requests: readonly LeaveRequest[]
  /** Ids whose first leave had no answer: their key may be gone by it. */
  readonly #again: ReadonlySet<string>
  /** Ids that stood in the line, alive, when they left. */
  readonly stood = new Set<string>()
  /** Keys of tickets that stay in the line, marked as left: they go when the line says so. */
  #later: string[] = []

  constructor(store: LineStore, requests: readonly LeaveRequest[], again: ReadonlySet<string>) {
    this.#store = store
    this.#requests = requests
    this.#again = again
  }

  async decide(seen: Snapshot, fresh: boolean): Promise<Step> {
    let line = seen.value
    this.#later = []
    const deletes: { readonly id: string; readonly key: string; readonly listed: boolean }[] = []
    const stores: string[] = []
    for (const request of this.#requests) {
      const entry = find(line, request.id)
      const mine = entry !== undefined && (request.handle === undefined || request.handle === entry.handle)
      if (!mine && !fresh) return 'read'
      if (!mine) {
        // The line may have been evicted and the key not.
        if (request.handle !== undefined) {
          deletes.push({ id: request.id, key: this.#store.keys.ticket(request.handle), listed: false })
        }
      } else if (entry.left && request.handle !== undefined) {
        // It has left already, and goes on keeping others out; only an eviction ends that.
        if (this.#again.has(entry.id)) this.stood.add(entry.id)
      } else if (request.keepMs > 0) {
        const kept = await this.#keep(line, entry, request, seen)
        line = kept.line
        stores.push(...kept.commands)
      } else {
        line = without(line, ({ id }) => id === request.id)
        deletes.push({ id: request.id, key: this.#store.keys.life(entry), listed: true })
      }
      if (request.tombstoneMs > 0) {
        const seconds = secondsFor(request.tombstoneMs)
        line = {
          ...line,
          tombstones: [...line.tombstones.filter(({ id }) => id !== request.id), { id: request.id, seconds }],
        }
        stores.push(setCommand(this.#store.keys.tombstone(request.id), '', seconds))
      }
    }
    const before = [...stores, ...deletes.map(({ key }) => `md ${key}`)]
    if (line === seen.value) {
      const replies = await seen.connection.send(before)
      // Whether the keys were there does not matter, as long as they are gone.
      for (const reply of replies) isMiss(reply)
      return 'keep'
    }
    return {
      // What is remembered is stored in one round trip; the next that has to read the line tidies it.
      write: fresh ? await this.#withoutOldTombstones(line, seen) : line,
      before,
      heard: (replies) => {
        for (const [index, { id, listed }] of deletes.entries()) {
          const lived = replies[stores.length + index]?.code === 'HD'
          if (listed && (lived || this.#again.has(id))) this.stood.add(id)
        }
      },
    }
  }

  async tidy(snapshot: Snapshot): Promise<void> {
    await snapshot.connection.send(this.#later.map((key) => `md ${key}`))
  }

  /** Marks an entry as left and gives it a life of its own, that no renewal of the ticket can extend. */
  async #keep(
    line: LineValue,
    entry: Entry,
    request: LeaveRequest,
    seen: Snapshot,
  ): Promise<{ line: LineValue; commands: string[] }> {
    const [holder] = await readHolders(this.#store, [entry], seen)
    if (holder === undefined) return { line: without(line, ({ id }) => id === entry.id), commands: [] }
    this.stood.add(entry.id)
    this.#later.push(this.#store.keys.ticket(entry.handle))
    const kept = setCommand(this.#store.keys.kept(entry.id), JSON.stringify(holder), secondsFor(request.keepMs))
    return { line: replace(line, entry.id, { left: true }), commands: [kept] }
  }

  async #withoutOldTombstones(line: LineValue, seen: Snapshot): Promise<LineValue> {
    const old = line.tombstones.filter(({ id }) => !this.#requests.some((request) => request.id === id))
    if (old.length === 0) return line
    const fresh = line.tombstones.filter((tombstone) => !old.includes(tombstone))
    return { ...line, tombstones: [...(await this.#store.lasting(old, seen.connection)), ...fresh] }
  }
}
