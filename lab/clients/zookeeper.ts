import { answered, type Created, found, ZooKeeperClient } from '#zookeeper/client'
import { CODE, ZooKeeperError } from '#zookeeper/errors'
import { MODE, type Mode, OPEN_ACL } from '#zookeeper/protocol'

const NOTHING = Buffer.alloc(0)
const RECONNECTS_WITHIN_MS = 2_000

/** What a look saw, and a promise for the next change of it (until the time is up: false). */
export interface Watched<T> {
  readonly value: T
  changed(withinMs: number): Promise<boolean>
}

/** A ZooKeeper session as the posts use it: nodes come and go, watches fire once, a lost connection is an error. */
export class ZooKeeper {
  readonly #client: ZooKeeperClient
  readonly #waiting = new Set<() => void>()
  readonly #watching = new Set<(error: Error) => void>()

  private constructor(url: string, sessionMs: number) {
    const { hostname, port } = new URL(url)
    this.#client = new ZooKeeperClient(
      { hosts: [{ host: hostname, port: Number(port) }], timeoutMs: sessionMs, tickMs: 100 },
      // The posts do not listen to the state of the connection; only what is under way fails.
      { connected: () => this.#goOn(), disconnected: ignore, expired: () => this.#failWatches() },
    )
  }

  static async open(url: string, sessionMs: number): Promise<ZooKeeper> {
    const zookeeper = new ZooKeeper(url, sessionMs)
    zookeeper.#client.session.start()
    await zookeeper.#connection()
    return zookeeper
  }

  /** The node that all locks stand below. */
  async createRoot(path: string): Promise<void> {
    await this.#create(path, MODE.persistent)
  }

  /** False: it is there already. */
  async createEphemeral(path: string): Promise<boolean> {
    return (await this.#create(path, MODE.ephemeral)) !== undefined
  }

  /** The new node's name below its parent, with the number that the server gave it. */
  async createSequential(parent: string, prefix: string): Promise<string> {
    const path = await this.#create(`${parent}/${prefix}`, MODE.ephemeralSequential)
    return path!.slice(parent.length + 1)
  }

  async children(path: string): Promise<string[]> {
    const client = await this.#connection()
    return await answered((reply) => client.getChildren(path, undefined, reply))
  }

  async watchChildren(path: string): Promise<Watched<string[]>> {
    const client = await this.#connection()
    const watch = this.#watcher()
    const value = await answered<string[]>((reply) => client.getChildren(path, watch.fire, reply))
    return { value, changed: watch.changed }
  }

  /** Whether the node is there. */
  async watchNode(path: string): Promise<Watched<boolean>> {
    const client = await this.#connection()
    const watch = this.#watcher()
    const stat = await found((reply) => client.exists(path, watch.fire, reply))
    return { value: stat !== undefined, changed: watch.changed }
  }

  /** False: there was none. */
  async delete(path: string): Promise<boolean> {
    const client = await this.#connection()
    return (await found<true>((reply) => client.delete(path, reply))) === true
  }

  async close(): Promise<void> {
    await this.#client.session.close()
  }

  /** As client libraries do, requests wait for a connection that is being made; for a while. */
  async #connection(): Promise<ZooKeeperClient> {
    if (this.#client.session.state === 'connected') return this.#client
    const connected = new Promise<void>((resolve) => this.#waiting.add(resolve))
    if (!(await inTime(connected, RECONNECTS_WITHIN_MS))) throw new Error('ZooKeeper cannot be reached')
    return this.#client
  }

  #watcher(): { fire: () => void; changed: (withinMs: number) => Promise<boolean> } {
    let fire: () => void = ignore
    let fail: (error: Error) => void = ignore
    const fired = new Promise<void>((resolve, reject) => {
      fire = resolve
      fail = reject
    })
    this.#watching.add(fail)
    // A watch that nobody waits for any more may fail unheard.
    void fired.finally(() => this.#watching.delete(fail)).catch(ignore)
    return { fire, changed: async (withinMs) => await inTime(fired, withinMs) }
  }

  /** Watches end with the session, and whoever waits is told. */
  #failWatches(): void {
    for (const fail of this.#watching) fail(new Error('the session has expired'))
  }

  #goOn(): void {
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }

  async #create(path: string, mode: Mode): Promise<string | undefined> {
    const client = await this.#connection()
    try {
      const created = await answered<Created>((reply) => client.create(path, NOTHING, OPEN_ACL, mode, reply))
      return created.path
    } catch (error) {
      if (error instanceof ZooKeeperError && error.code === CODE.nodeExists) return undefined
      throw error
    }
  }
}

/** What a lock's node is called: a lock's name may hold slashes. */
export function nodeName(lock: string): string {
  return encodeURIComponent(lock)
}

async function inTime(promise: Promise<void>, withinMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => (timer = setTimeout(resolve, Math.max(0, withinMs), false)))
  try {
    return await Promise.race([promise.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}

function ignore(): void {
  // Nobody waits, or nobody listens.
}
