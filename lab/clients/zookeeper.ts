import { answered, type Created, found, ZooKeeperClient } from '#zookeeper/client'
import { CODE, ZooKeeperError } from '#zookeeper/errors'
import { MODE, type Mode, OPEN_ACL } from '#zookeeper/protocol'

const NOTHING = Buffer.alloc(0)
const OPENS_WITHIN_MS = 5_000

/** What a look saw, and a promise for the next change of it (until the time is up: false). */
export interface Watched<T> {
  readonly value: T
  changed(withinMs: number): Promise<boolean>
}

/** A ZooKeeper session as the posts use it: nodes come and go, watches fire once, a lost connection is an error. */
export class ZooKeeper {
  readonly #client: ZooKeeperClient

  private constructor(client: ZooKeeperClient) {
    this.#client = client
  }

  static async open(url: string, sessionMs: number): Promise<ZooKeeper> {
    const { hostname, port } = new URL(url)
    const hosts = [{ host: hostname, port: Number(port) }]
    return await new Promise((resolve, reject) => {
      const client = new ZooKeeperClient(
        { hosts, timeoutMs: sessionMs, tickMs: 100 },
        { connected: () => opened(), disconnected: ignore, expired: ignore },
      )
      const timer = setTimeout(() => reject(new Error('ZooKeeper did not answer in time')), OPENS_WITHIN_MS)
      const opened = () => {
        clearTimeout(timer)
        resolve(new ZooKeeper(client))
      }
      client.session.start()
    })
  }

  /** Makes the node that others stand below, and those above it. */
  async createParents(path: string): Promise<void> {
    const parts = path.split('/').slice(1)
    for (const [index] of parts.entries()) {
      await this.#create(`/${parts.slice(0, index + 1).join('/')}`, MODE.persistent)
    }
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
    return await answered((reply) => this.#client.getChildren(path, undefined, reply))
  }

  async watchChildren(path: string): Promise<Watched<string[]>> {
    const watch = watcher()
    const value = await answered<string[]>((reply) => this.#client.getChildren(path, watch.fire, reply))
    return { value, changed: watch.changed }
  }

  /** Whether the node is there. */
  async watchNode(path: string): Promise<Watched<boolean>> {
    const watch = watcher()
    const stat = await found((reply) => this.#client.exists(path, watch.fire, reply))
    return { value: stat !== undefined, changed: watch.changed }
  }

  /** False: there was none. */
  async delete(path: string): Promise<boolean> {
    return (await found<true>((reply) => this.#client.delete(path, reply))) === true
  }

  async close(): Promise<void> {
    await this.#client.session.close()
  }

  async #create(path: string, mode: Mode): Promise<string | undefined> {
    try {
      const created = await answered<Created>((reply) => this.#client.create(path, NOTHING, OPEN_ACL, mode, reply))
      return created.path
    } catch (error) {
      if (error instanceof ZooKeeperError && error.code === CODE.nodeExists) return undefined
      throw error
    }
  }
}

/** The path of a lock's node: a name may hold anything. */
export function lockPath(root: string, name: string): string {
  return `${root}/${encodeURIComponent(name)}`
}

function watcher(): { fire: () => void; changed: (withinMs: number) => Promise<boolean> } {
  let fire: () => void = ignore
  const fired = new Promise<void>((resolve) => (fire = resolve))
  const changed = async (withinMs: number): Promise<boolean> => {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<boolean>((resolve) => (timer = setTimeout(resolve, Math.max(0, withinMs), false)))
    const result = await Promise.race([fired.then(() => true), late])
    clearTimeout(timer)
    return result
  }
  return { fire, changed }
}

function ignore(): void {
  // The posts do not listen to the state of the connection.
}
