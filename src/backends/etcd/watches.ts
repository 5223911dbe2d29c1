import type { Cluster } from './cluster.js'
import type { MessageStream } from './connection.js'
import type { WatchOn } from './grant.js'
import { type Change, readWatch, type WatchAnswer, watchCancelRequest, watchCreateRequest } from './messages.js'

interface Watch {
  readonly once: boolean
  readonly changed: (changes: readonly Change[]) => void
  /** It is in force, for what changes after this revision. */
  readonly created?: (revision: bigint) => void
}

/** When the server turns a watch away, its reason may last: so long until the tickets are asked to look again. */
const TURNED_AWAY_PAUSE_MS = 1_000

const TOLD_PAUSE_MS = 100

/** All watches of a client, on one stream. */
export class Watches {
  readonly #cluster: Cluster
  readonly #lost: () => void
  readonly #watches = new Map<number, Watch>()
  readonly #told: number[] = []
  #stream: Promise<MessageStream> | undefined
  #nextId = 1
  #closed = false

  /** `lost` is called when the stream ended and no watch is in force any more. */
  constructor(cluster: Cluster, lost: () => void) {
    this.#cluster = cluster
    this.#lost = lost
  }

  /** Calls back at the first change from that revision on, once. The returned function ends the watch. */
  once(on: WatchOn, fromRevision: bigint, changed: (changes: readonly Change[]) => void): () => void {
    return this.#watch(on, fromRevision, { once: true, changed })
  }

  /**
   * The same from now on, whatever now is: `created` tells. A watch that asks for a past, were it of one revision,
   * is served from the server's log every 100 ms until it has caught up; one from now on is told at once.
   */
  onceFromNow(
    on: WatchOn,
    created: (revision: bigint) => void,
    changed: (changes: readonly Change[]) => void,
  ): () => void {
    return this.#watch(on, 0n, { once: true, changed, created })
  }

  /** Calls back with every value that is put from now on, until the stream ends. */
  values(key: string, put: (values: readonly string[]) => void): void {
    const changed = (changes: readonly Change[]): void => put(changes.map(({ value }) => value))
    this.#watch({ key, deletesOnly: false }, 0n, { once: false, changed })
  }

  close(): void {
    this.#closed = true
    void this.#drop()
  }

  #watch(on: WatchOn, fromRevision: bigint, watch: Watch): () => void {
    const id = this.#nextId++
    this.#watches.set(id, watch)
    this.#stream ??= this.#open()
    const stream = this.#stream
    const create = watchCreateRequest({ id, fromRevision, withBefore: watch.once, ...on })
    stream.then(
      (opened) => {
        if (this.#watches.has(id) && this.#stream === stream) opened.send(create)
      },
      () => this.#watches.delete(id),
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

  /** What has told its news is ended in an idle moment: who is served now has other things to do. */
  #cancelLater(id: number): void {
    this.#watches.delete(id)
    this.#told.push(id)
    if (this.#told.length > 1) return
    setTimeout(() => {
      const stream = this.#stream
      const told = this.#told.splice(0)
      stream?.then(
        (opened) => told.forEach((one) => opened.send(watchCancelRequest(one))),
        () => undefined,
      )
    }, TOLD_PAUSE_MS).unref()
  }

  #answer(answer: WatchAnswer): void {
    if (answer.watchId < 0 && answer.canceled) return this.#turnedAway()
    const watch = this.#watches.get(answer.watchId)
    if (watch === undefined) return
    if (answer.canceled) {
      this.#watches.delete(answer.watchId)
      // It asked for revisions that were compacted away: what happened since must be read.
      if (answer.compactRevision > 0n) watch.changed([])
    } else if (answer.created) {
      watch.created?.(answer.revision)
    } else if (answer.changes.length > 0) {
      if (watch.once) this.#cancelLater(answer.watchId)
      watch.changed(answer.changes)
    }
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
    this.#watches.clear()
    this.#tellLost()
  }

  #tellLost(): void {
    if (!this.#closed) this.#lost()
  }

  async #drop(): Promise<void> {
    const stream = this.#stream
    this.#stream = undefined
    this.#watches.clear()
    try {
      ;(await stream)?.end()
    } catch {
      // It was never opened, so there is nothing to end.
    }
  }
}
