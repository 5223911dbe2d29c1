import type { Cluster } from './cluster.js'
import type { MessageStream } from './connection.js'
import type { WatchOn } from './grant.js'
import { type Change, readWatch, type WatchAnswer, watchCancelRequest, watchCreateRequest } from './messages.js'

/** What a watch hears. */
export interface WatchEvents {
  /** It is in force, for what changes after this revision. */
  created?(revision: bigint): void
  /** None: it asked for revisions that were compacted away, and ends; what happened since must be read. */
  changed(changes: readonly Change[]): void
  /** Nothing more is told: it or all of them ended, though nobody here asked for that. */
  over?(): void
}

/** When the server turns a watch away, its reason may last: so long until the tickets are asked to look again. */
const TURNED_AWAY_PAUSE_MS = 1_000

/**
 * A member without a leader ends every stream as soon as it is opened: so long between two times that the tickets are
 * told to look again, for to look opens the next one.
 */
const ENDED_PAUSE_MS = 250

/** All watches of a client, on one stream. */
export class Watches {
  readonly #cluster: Cluster
  readonly #lost: () => void
  readonly #watches = new Map<number, WatchEvents>()
  #stream: Promise<MessageStream> | undefined
  #nextId = 1
  #endedAt = Number.NEGATIVE_INFINITY
  #telling: NodeJS.Timeout | undefined
  #closed = false

  /** `lost` is called when the stream ended and no watch is in force any more. */
  constructor(cluster: Cluster, lost: () => void) {
    this.#cluster = cluster
    this.#lost = lost
  }

  /**
   * Calls back at the first change from that revision on, once. The returned function ends the watch.
   *
   * A watch that asks for a past, were it of one revision, is served from the server's log every 100 ms until it has
   * caught up; one from now on is told at once.
   */
  once(on: WatchOn, fromRevision: bigint, changed: (changes: readonly Change[]) => void): () => void {
    const end = this.#watch(on, fromRevision, {
      changed: (changes) => {
        end()
        changed(changes)
      },
    })
    return end
  }

  /** Tells of all that changes from now on, whatever now is: `created` says. The returned function ends the watch. */
  fromNow(on: WatchOn, events: WatchEvents): () => void {
    return this.#watch(on, 0n, events)
  }

  /** Calls back with every value that is put from now on; `over`: it will no more, or never did. */
  values(key: string, put: (values: readonly string[]) => void, over: () => void): void {
    this.fromNow({ key, deletesOnly: false }, { changed: (changes) => put(changes.map(({ value }) => value)), over })
  }

  close(): void {
    this.#closed = true
    void this.#drop()
  }

  #watch(on: WatchOn, fromRevision: bigint, events: WatchEvents): () => void {
    const id = this.#nextId++
    this.#watches.set(id, events)
    this.#stream ??= this.#open()
    const stream = this.#stream
    const create = watchCreateRequest({ id, fromRevision, ...on })
    stream.then(
      (opened) => {
        if (this.#watches.has(id) && this.#stream === stream) opened.send(create)
      },
      () => this.#over(id),
    )
    return () => this.#cancel(id)
  }

  /** A stream that cannot be opened is no news: the connection's end is told by the cluster. */
  #open(): Promise<MessageStream> {
    const opening: Promise<MessageStream> = this.#cluster.stream(
      '/etcdserverpb.Watch/Watch',
      (reader) => this.#answer(readWatch(reader)),
      () => this.#ended(opening),
    )
    opening.catch(() => {
      if (this.#stream === opening) this.#stream = undefined
    })
    return opening
  }

  #cancel(id: number): void {
    const stream = this.#stream
    if (!this.#watches.delete(id) || stream === undefined) return
    stream.then(
      (opened) => opened.send(watchCancelRequest(id)),
      () => undefined,
    )
  }

  #answer(answer: WatchAnswer): void {
    if (answer.watchId < 0 && answer.canceled) return this.#turnedAway()
    const watch = this.#watches.get(answer.watchId)
    if (watch === undefined) return
    if (answer.canceled) {
      this.#over(answer.watchId)
      if (answer.compactRevision > 0n) watch.changed([])
    } else if (answer.created) {
      watch.created?.(answer.revision)
    } else if (answer.changes.length > 0) {
      watch.changed(answer.changes)
    }
  }

  #over(id: number): void {
    const watch = this.#watches.get(id)
    this.#watches.delete(id)
    watch?.over?.()
  }

  #overAll(): void {
    for (const id of [...this.#watches.keys()]) this.#over(id)
  }

  /** The token that the stream was opened with has ended, or the user may not read there. */
  #turnedAway(): void {
    this.#cluster.forgetToken()
    void this.#drop().then(() => {
      setTimeout(() => this.#tellLost(), TURNED_AWAY_PAUSE_MS).unref()
    })
  }

  #ended(stream: Promise<MessageStream>): void {
    if (this.#stream !== stream) return
    this.#stream = undefined
    this.#overAll()
    const pauseMs = this.#endedAt + ENDED_PAUSE_MS - performance.now()
    this.#endedAt = performance.now()
    if (pauseMs <= 0) this.#tellLost()
    else this.#telling ??= setTimeout(() => this.#tellLost(), pauseMs).unref()
  }

  #tellLost(): void {
    clearTimeout(this.#telling)
    this.#telling = undefined
    if (!this.#closed) this.#lost()
  }

  async #drop(): Promise<void> {
    const stream = this.#stream
    this.#stream = undefined
    this.#overAll()
    try {
      ;(await stream)?.end()
    } catch {
      // It was never opened, so there is nothing to end.
    }
  }
}
