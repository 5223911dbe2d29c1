import { randomUUID } from 'node:crypto'
import type { LineView, TicketView } from '../../core/backend.js'
import { byOrder, type Kind, KINDS, type LineKey } from '../../core/line.js'
import { answered, type Created, type Data, found, type ZooKeeperClient } from './client/client.js'
import { CODE, ZooKeeperError } from './client/errors.js'
import { type Acl, MODE, type Stat } from './client/protocol.js'
import { decodeHolder, foreignHolder } from './holder.js'
import { decodeSegment, kindPath, linePath, type Node, parseNode, type Places } from './names.js'

/** Lines or tickets asked about at a time: enough to hide the way to the server, few enough not to hold up a lock. */
const AT_A_TIME = 100
/** What was learnt of the servers' clock is believed for so long. */
const CLOCK_MS = 60_000

/** Looking at lines from outside: whose tickets they are does not matter here. */
export class Look {
  readonly #client: ZooKeeperClient
  readonly #places: Places
  #acl: readonly Acl[] = []
  /** The leader's wall clock less ours that never steps, and when it was learnt. */
  #clock: { readonly offsetMs: number; readonly at: number } | undefined

  constructor(client: ZooKeeperClient, places: Places) {
    this.#client = client
    this.#places = places
  }

  folder(kind: Kind): string {
    return kindPath(this.#places, kind)
  }

  /** Finds out that this user may create, read and delete. */
  async probe(acl: readonly Acl[]): Promise<void> {
    this.#acl = acl
    const folder = this.folder('mutex')
    await answered((reply) => this.#client.getChildren(folder, undefined, reply))
    await this.#readClock()
  }

  async view(name: string): Promise<LineView[]> {
    this.#client.sync(unheard)
    const views = await Promise.all(KINDS.map((kind) => this.#viewLine({ kind, name })))
    return views.filter((view) => view !== undefined)
  }

  async *names(prefix: string): AsyncIterable<string> {
    const seen = new Set<string>()
    this.#client.sync(unheard)
    for (const [kind, folder, plain] of this.#folders()) {
      const lines: { name: string; path: string }[] = []
      for (const segment of await childrenOf(this.#client, folder)) {
        const name = plain ? segment : decodeSegment(segment)
        if (name?.startsWith(prefix) && !seen.has(name)) lines.push({ name, path: join(folder, segment) })
      }
      while (lines.length > 0) {
        const some = lines.splice(0, AT_A_TIME)
        // A line of another user that may not be read is left out, and the others are still listed.
        const nodes = await Promise.all(
          some.map(({ path }) => readNodes(this.#client, kind, path).catch(unlessNoAuth([]))),
        )
        for (const [index, { name }] of some.entries()) {
          if (nodes[index]!.length === 0 || seen.has(name)) continue
          seen.add(name)
          yield name
        }
      }
    }
  }

  /** Removes a ticket by its id, whoever's it is. */
  async remove(line: LineKey, id: string): Promise<boolean> {
    this.#client.sync(unheard)
    const path = linePath(this.#places, line)
    const nodes = (await readNodes(this.#client, line.kind, path)).filter((node) => node.id === id)
    const removed = await Promise.all(
      nodes.map(({ name }) => found<true>((reply) => this.#client.delete(`${path}/${name}`, reply))),
    )
    return removed.includes(true)
  }

  /** Folders whose children are lines; those shared with Curator hold their names as they are, a level deep. */
  #folders(): [Kind, string, boolean][] {
    const folders = KINDS.map((kind): [Kind, string, boolean] => [kind, this.folder(kind), false])
    const { curator } = this.#places
    return curator === undefined ? folders : [...folders, ['mutex', curator, true]]
  }

  async #viewLine(line: LineKey): Promise<LineView | undefined> {
    const path = linePath(this.#places, line)
    const nodes = await readNodes(this.#client, line.kind, path)
    if (nodes.length === 0) return undefined
    const now = await this.#now()
    const tickets: TicketView[] = []
    while (nodes.length > 0) {
      const some = await Promise.all(nodes.splice(0, AT_A_TIME).map((node) => this.#viewTicket(path, node, now)))
      for (const ticket of some) if (ticket !== undefined) tickets.push(ticket)
    }
    return tickets.length === 0 ? undefined : { line, tickets: tickets.sort(byOrder) }
  }

  async #viewTicket(path: string, node: Node, now: number | undefined): Promise<TicketView | undefined> {
    const read = await readOrSee(this.#client, `${path}/${node.name}`)
    if (read === undefined) return undefined
    const { id, weight, capacity } = node
    const holder = decodeHolder(read.data) ?? foreignHolder(node.name, read.data)
    const ageMs = now === undefined ? {} : { ageMs: Math.max(0, now - Number(read.stat.ctime)) }
    return { id, order: read.stat.czxid, weight, capacity, holder, left: false, ...ageMs }
  }

  /** The leader's wall clock. Not known to someone who may only read. */
  async #now(): Promise<number | undefined> {
    if (this.#clock === undefined || performance.now() - this.#clock.at > CLOCK_MS) {
      await this.#readClock().catch(() => undefined)
    }
    return this.#clock === undefined ? undefined : performance.now() + this.#clock.offsetMs
  }

  /** A node that is created, and deleted in the same breath, tells the leader's time. */
  async #readClock(): Promise<void> {
    const path = `${this.folder('mutex')}/probe-${randomUUID()}`
    let at = 0
    const made = answered<Created>((reply) =>
      this.#client.create(path, new Uint8Array(0), this.#acl, MODE.ephemeral, (error, value) => {
        at = performance.now()
        reply(error, value)
      }),
    )
    const deleted = found<true>((reply) => this.#client.delete(path, reply))
    const [{ stat }] = await Promise.all([made, deleted])
    this.#clock = { offsetMs: Number(stat.ctime) - at, at }
  }
}

/** The nodes of a line as the server that is asked has them, in no order. */
export async function readNodes(client: ZooKeeperClient, kind: Kind, path: string): Promise<Node[]> {
  const children = await childrenOf(client, path)
  return children.map((name) => parseNode(kind, name)).filter((node) => node !== undefined)
}

async function childrenOf(client: ZooKeeperClient, path: string): Promise<string[]> {
  return (await found<string[]>((reply) => client.getChildren(path, undefined, reply))) ?? []
}

/** What a node holds; where this user may not read it, no more than that it stands. */
export async function readOrSee(client: ZooKeeperClient, path: string): Promise<Data | undefined> {
  const read = await found<Data>((reply) => client.getData(path, undefined, reply)).catch(unlessNoAuth(null))
  return read === null ? await see(client, path) : read
}

/** A node that this user may not read. */
export async function see(client: ZooKeeperClient, path: string): Promise<Data | undefined> {
  const stat = await found<Stat>((reply) => client.exists(path, undefined, reply))
  return stat === undefined ? undefined : { data: Buffer.alloc(0), stat }
}

export function unlessNoAuth<T>(instead: T): (error: unknown) => T {
  return (error) => {
    if (error instanceof ZooKeeperError && error.code === CODE.noAuth) return instead
    throw error
  }
}

function join(folder: string, segment: string): string {
  return folder === '/' ? `/${segment}` : `${folder}/${segment}`
}

/** For a request that only makes the next one wait for it: should it fail, so does that. */
export function unheard(): void {}
