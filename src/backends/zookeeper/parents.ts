import type { Acl, Mode } from './client/protocol.js'
import { MODE } from './client/protocol.js'
import { answered, type Created, type ZooKeeperClient } from './client/client.js'
import { CODE, ZooKeeperError } from './client/errors.js'

/** An idle line's parent goes after so long: soon enough to leave nothing behind, too late to cost a busy line anything. */
const IDLE_MS = 3_000
const MOST_KNOWN = 10_000

export interface ParentsOptions {
  readonly acl: readonly Acl[]
  /** Whether the server removes a line's parent once it has had tickets and has none. */
  readonly container: boolean
  /** Parents below this path are left alone: others than us may count on them. */
  readonly shared?: string
}

/** The nodes that lines stand below: made when missing, removed when empty. */
export class Parents {
  readonly #client: ZooKeeperClient
  readonly #options: ParentsOptions
  /** Those that were there lately. Only a hint: somebody may have removed them since. */
  readonly #known = new Set<string>()
  /** Those that may be empty, by when they are to be removed. */
  readonly #idle = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined

  constructor(client: ZooKeeperClient, options: ParentsOptions) {
    this.#client = client
    this.#options = options
  }

  /**
   * Sends the parent's creation ahead of a ticket's, when it is not known to be there: no round trip of its own.
   * True when it is known: its line was used lately.
   */
  expect(path: string): boolean {
    this.#idle.delete(path)
    if (this.#known.has(path)) return true
    if (this.#known.size >= MOST_KNOWN) this.#known.clear()
    this.#known.add(path)
    // NodeExists is as good; whatever else is wrong, the ticket's own creation says too.
    this.#client.create(path, EMPTY, this.#options.acl, this.#mode(), (error) => {
      if (error !== undefined && error.code !== CODE.nodeExists) this.#known.delete(path)
    })
    return false
  }

  /** A ticket found no parent: makes what that stands below, and has the parent itself sent with the next ticket. */
  async missing(path: string): Promise<void> {
    this.#known.delete(path)
    try {
      // What only leads to a shared line goes when it is empty, as the line's parent does.
      await this.folder(above(path), this.#mode())
    } catch (error) {
      // The servers removed an empty folder on the way just now: the next ticket finds that out, and comes here again.
      if (!(error instanceof ZooKeeperError) || error.code !== CODE.noNode) throw error
    }
  }

  /** Makes a path of plain nodes, but for those below the shared path: of them `mode` says what they are. */
  async folder(path: string, mode: Mode = MODE.persistent): Promise<void> {
    if (path === '') return
    if ((await answered((reply) => this.#client.exists(path, undefined, reply))) !== undefined) return
    await this.folder(above(path), mode)
    try {
      const kept = this.#isShared(path) ? mode : MODE.persistent
      await answered<Created>((reply) => this.#client.create(path, EMPTY, this.#options.acl, kept, reply))
    } catch (error) {
      if (!(error instanceof ZooKeeperError) || error.code !== CODE.nodeExists) throw error
    }
  }

  /** No ticket of ours stands there any more. */
  leave(path: string): void {
    if (this.#isShared(path)) return
    this.#idle.delete(path)
    this.#idle.set(path, performance.now() + IDLE_MS)
    this.#wake()
  }

  /** The session is new: what was known is still there, most likely, but nothing was promised. */
  forget(): void {
    this.#known.clear()
  }

  /** Removes what is idle, at once. */
  async close(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const paths = [...this.#idle.keys()]
    this.#idle.clear()
    await Promise.all(paths.map((path) => this.#remove(path)))
  }

  #wake(): void {
    if (this.#timer !== undefined) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      const now = performance.now()
      // In the order of their times; a few at a time, for they share the connection with live locks.
      let few = 100
      for (const [path, dueAt] of this.#idle) {
        if (dueAt > now || few === 0) break
        few -= 1
        this.#idle.delete(path)
        void this.#remove(path)
      }
      if (this.#idle.size > 0) this.#wake()
    }, IDLE_MS / 10)
    this.#timer.unref()
  }

  /** Removes a parent unless somebody stands there. He who comes a moment later finds none and makes it again. */
  #remove(path: string): Promise<void> {
    this.#known.delete(path)
    return new Promise((resolve) => this.#client.delete(path, () => resolve()))
  }

  #isShared(path: string): boolean {
    const { shared } = this.#options
    return shared !== undefined && (shared === '/' || path.startsWith(`${shared}/`))
  }

  #mode(): Mode {
    return this.#options.container ? MODE.container : MODE.persistent
  }
}

function above(path: string): string {
  return path.slice(0, path.lastIndexOf('/'))
}

const EMPTY = new Uint8Array(0)
