import type { ZooKeeperClient } from './client/client.js'
import { CODE, type ZooKeeperError } from './client/errors.js'
import { EVENT } from './client/protocol.js'
import type { Watcher } from './client/watches.js'
import type { Place } from './known-places.js'

/** The line that the watches are set for. */
export interface WatchedLine {
  readonly path: string
  /** A place is empty. */
  gone(place: Place): void
  /** Reads the whole line, with a watch on its list where one is given. */
  refresh(reply?: (error: ZooKeeperError | undefined) => void, watcher?: Watcher): void
  /** The parent has gone, or nothing will tell when it does. */
  parentGone(): void
}

/** What the servers tell of a line: that a place is empty, that the list changed, that the parent has gone. */
export class LineWatches {
  readonly #client: ZooKeeperClient
  readonly #line: WatchedLine
  #parentWatcher: Watcher | undefined
  #parentWatched = false
  /** Set while the list of nodes is watched, for the sake of those that may not be read. */
  #listWatcher: Watcher | undefined

  constructor(client: ZooKeeperClient, line: WatchedLine) {
    this.#client = client
    this.#line = line
  }

  /** Whether the server has set the watch on the parent. */
  get parentWatched(): boolean {
    return this.#parentWatched
  }

  /** Watches the parent. Nothing is heard of its end before `parentWatched`. */
  watchParent(): void {
    if (this.#parentWatcher !== undefined) return
    const watcher: Watcher = () => this.#parentGone()
    this.#parentWatcher = watcher
    this.#client.getData(this.#line.path, watcher, (error) => {
      if (this.#parentWatcher !== watcher) return
      if (error === undefined) this.#parentWatched = true
      else this.#parentGone()
    })
  }

  #parentGone(): void {
    this.#parentWatcher = undefined
    this.#parentWatched = false
    this.#line.parentGone()
  }

  watch(place: Place): void {
    if (place.unreadable === true) return this.#watchList()
    const watcher: Watcher = ({ type }) => {
      delete place.watcher
      if (type === EVENT.deleted) this.#line.gone(place)
      else this.#line.refresh()
    }
    place.watcher = watcher
    this.#client.getData(`${this.#line.path}/${place.name}`, watcher, (error) => {
      if (error === undefined) return
      delete place.watcher
      // A broken connection reads all lines again once it is back.
      if (error.code === CODE.noNode) this.#line.gone(place)
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
      this.#line.refresh()
    }
    this.#listWatcher = watcher
    const replied = (error: ZooKeeperError | undefined): void => {
      if (error !== undefined && this.#listWatcher === watcher) this.#listWatcher = undefined
    }
    this.#line.refresh(replied, watcher)
  }

  unwatch(place: Place): void {
    if (place.watcher === undefined) return
    this.#client.session.watches.remove('data', `${this.#line.path}/${place.name}`, place.watcher)
    delete place.watcher
  }

  /** Ends the watches on the line itself; those on its places end by `unwatch`. */
  drop(): void {
    const { watches } = this.#client.session
    if (this.#listWatcher !== undefined) watches.remove('child', this.#line.path, this.#listWatcher)
    this.#listWatcher = undefined
    if (this.#parentWatcher === undefined) return
    watches.remove('data', this.#line.path, this.#parentWatcher)
    this.#parentWatcher = undefined
    this.#parentWatched = false
  }
}
