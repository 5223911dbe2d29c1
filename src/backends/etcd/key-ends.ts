import type { Change } from './messages.js'
import type { Watches } from './watches.js'

/** Who waits for the end of a key. */
export interface EndListener {
  /** What ended up to this revision is not told any more, what ends later is; also what this listener may have read. */
  begun(revision: bigint): void
  /** The key was deleted at that revision; undefined: perhaps, it must be read. */
  ended(revision: bigint | undefined): void
}

interface WatchedKey {
  readonly key: string
  readonly listeners: Set<EndListener>
  end: () => void
  /** All ends up to here were told; undefined: the watch is not in force yet. */
  toldTo: bigint | undefined
  /** Since when nobody listens. */
  idleSinceMs: number
}

/**
 * How long a key is watched on for nobody. Tickets stand at the same few keys again and again, so on a busy line the
 * next to wait finds its watch in force; and what ends thousands of watches does not come between hand-offs.
 */
const LINGER_MS = 1_000

/** Tells of the end of keys: one watch a key, for all who listen. */
export class KeyEnds {
  readonly #watches: Watches
  readonly #byKey = new Map<string, WatchedKey>()
  readonly #idle = new Set<WatchedKey>()
  #sweeping = false

  constructor(watches: Watches) {
    this.#watches = watches
  }

  /** Listens until the returned function is called, or the stream of all watches ends. */
  listen(key: string, listener: EndListener): () => void {
    const watched = this.#byKey.get(key) ?? this.#watch(key)
    watched.listeners.add(listener)
    this.#idle.delete(watched)
    if (watched.toldTo !== undefined) listener.begun(watched.toldTo)
    return () => {
      if (watched.listeners.delete(listener) && watched.listeners.size === 0) this.#rest(watched)
    }
  }

  #watch(key: string): WatchedKey {
    const watched: WatchedKey = {
      key,
      listeners: new Set(),
      end: () => undefined,
      toldTo: undefined,
      idleSinceMs: 0,
    }
    this.#byKey.set(key, watched)
    watched.end = this.#watches.fromNow(
      { key, deletesOnly: true },
      {
        created: (revision) => {
          watched.toldTo = revision
          for (const listener of [...watched.listeners]) listener.begun(revision)
        },
        changed: (changes) => this.#tell(watched, changes),
        over: () => this.#forget(watched),
      },
    )
    return watched
  }

  #tell(watched: WatchedKey, changes: readonly Change[]): void {
    const last = changes.at(-1)?.revision
    if (last !== undefined) watched.toldTo = last
    const listeners = [...watched.listeners]
    for (const listener of listeners) listener.ended(last)
    // Whoever stands at that key comes and goes without anybody here behind it.
    if (listeners.length === 0) this.#end(watched)
  }

  #rest(watched: WatchedKey): void {
    if (this.#byKey.get(watched.key) !== watched) return
    watched.idleSinceMs = performance.now()
    this.#idle.add(watched)
    this.#sweepLater()
  }

  #sweepLater(): void {
    if (this.#sweeping) return
    this.#sweeping = true
    setTimeout(() => this.#sweep(), LINGER_MS).unref()
  }

  #sweep(): void {
    this.#sweeping = false
    const before = performance.now() - LINGER_MS
    for (const watched of this.#idle) if (watched.idleSinceMs <= before) this.#end(watched)
    if (this.#idle.size > 0) this.#sweepLater()
  }

  #end(watched: WatchedKey): void {
    this.#forget(watched)
    watched.end()
  }

  #forget(watched: WatchedKey): void {
    this.#idle.delete(watched)
    if (this.#byKey.get(watched.key) === watched) this.#byKey.delete(watched.key)
  }
}
