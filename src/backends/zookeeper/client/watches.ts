import { EVENT, type WatchEvent } from './protocol.js'

/** What a watch is on: a node that is there, one that may come, the list of a node's children. */
export type WatchKind = 'data' | 'exist' | 'child'
export type Watcher = (event: WatchEvent) => void

/** Bytes of paths in one packet: a server refuses packets of more than a megabyte. */
const CHUNK_BYTES = 128 * 1024

/**
 * Who waits for what. A watch fires once. It is noted when its request is *sent*: the server may report the
 * change before its reply to that request is read.
 */
export class Watches {
  readonly #watchers: Record<WatchKind, Map<string, Set<Watcher>>> = {
    data: new Map(),
    exist: new Map(),
    child: new Map(),
  }

  /** How many paths are watched. */
  get size(): number {
    const { data, exist, child } = this.#watchers
    return data.size + exist.size + child.size
  }

  add(kind: WatchKind, path: string, watcher: Watcher): void {
    const watchers = this.#watchers[kind].get(path)
    if (watchers === undefined) this.#watchers[kind].set(path, new Set([watcher]))
    else watchers.add(watcher)
  }

  remove(kind: WatchKind, path: string, watcher: Watcher): void {
    const watchers = this.#watchers[kind].get(path)
    if (watchers?.delete(watcher) && watchers.size === 0) this.#watchers[kind].delete(path)
  }

  /** The node is there: the server keeps the watch with those on data, unless it has fired already. */
  exists(path: string, watcher: Watcher): void {
    if (this.#watchers.exist.get(path)?.has(watcher) !== true) return
    this.remove('exist', path, watcher)
    this.add('data', path, watcher)
  }

  fire(event: WatchEvent): void {
    const kinds: WatchKind[] =
      event.type === EVENT.children
        ? ['child']
        : event.type === EVENT.deleted
          ? ['data', 'exist', 'child']
          : ['data', 'exist']
    for (const kind of kinds) {
      const watchers = this.#watchers[kind].get(event.path)
      if (watchers === undefined) continue
      this.#watchers[kind].delete(event.path)
      for (const watcher of watchers) watcher(event)
    }
  }

  /** The session is over, and with it every watch. */
  clear(): void {
    for (const watchers of Object.values(this.#watchers)) watchers.clear()
  }

  /** All watched paths, in portions that fit a packet, to be set again after reconnecting. */
  *portions(): Generator<Record<WatchKind, string[]>> {
    let portion: Record<WatchKind, string[]> = { data: [], exist: [], child: [] }
    let bytes = 0
    for (const kind of ['data', 'exist', 'child'] as const) {
      for (const path of this.#watchers[kind].keys()) {
        portion[kind].push(path)
        bytes += 4 + Buffer.byteLength(path)
        if (bytes < CHUNK_BYTES) continue
        yield portion
        portion = { data: [], exist: [], child: [] }
        bytes = 0
      }
    }
    if (bytes > 0) yield portion
  }
}
