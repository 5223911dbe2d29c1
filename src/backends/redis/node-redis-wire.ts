import { ConfigError } from '../../core/errors.js'
import { onSilence } from './silence.js'
import type { Wire } from './wire.js'
import type { Words } from './words.js'

/** What is used of a client of the package `redis`. Written out here, so that the package's types do not need it. */
export interface NodeRedisClient {
  readonly isOpen: boolean
  readonly isReady: boolean
  readonly options?: object | undefined
  sendCommand(args: readonly string[]): Promise<unknown>
  on(event: string, listener: (...args: unknown[]) => void): unknown
  off(event: string, listener: (...args: unknown[]) => void): unknown
  duplicate(): NodeRedisClient
  connect(): Promise<unknown>
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  unref(): void
  destroy(): void
}

/** What is used of a Cluster client of the package `redis`. */
export interface NodeRedisCluster {
  readonly isOpen: boolean
  readonly masters: readonly object[]
  readonly slots: readonly { readonly master: object }[]
  sendCommand(firstKey: string | undefined, isReadonly: boolean | undefined, args: string[]): Promise<unknown>
  nodeClient(node: never): unknown
  on(event: string, listener: (...args: unknown[]) => void): unknown
  off(event: string, listener: (...args: unknown[]) => void): unknown
  duplicate(): NodeRedisCluster
  connect(): Promise<unknown>
  destroy(): void
}

const NEXT_NODE_MS = 200

/** Talks through the package `redis`. */
export class NodeRedisWire implements Wire {
  readonly cluster: boolean
  // Commands are sent as they are: the library's own key prefix is for its typed methods only.
  readonly ownPrefix: string = ''
  readonly #client: NodeRedisClient | NodeRedisCluster
  readonly #ours: boolean
  readonly #undo: (() => void)[] = []
  readonly #slotOf: (key: string) => number
  #inbox: NodeRedisClient | undefined
  #stopAsking: () => void = () => undefined
  #closed = false

  constructor(client: NodeRedisClient | NodeRedisCluster, slotOf: (key: string) => number, ours: boolean) {
    if (!client.isOpen) throw new ConfigError('The redis client is not connected: await client.connect() first.')
    this.#client = client
    this.#slotOf = slotOf
    this.#ours = ours
    this.cluster = isCluster(client)
  }

  send(command: readonly string[], key?: string): Promise<unknown> {
    if (isCluster(this.#client)) return this.#client.sendCommand(key, false, [...command])
    return this.#client.sendCommand(command)
  }

  sendAround(before: Words, word: string, after: Words, key: string): Promise<unknown> {
    return this.send([...before.list, word, ...after.list], key)
  }

  async sendAndWait(
    command: readonly string[],
    key: string,
    replicas: number,
    timeoutMs: number,
  ): Promise<[unknown, number]> {
    const client = isCluster(this.#client)
      ? await clientOf(this.#client, this.#client.slots[this.#slotOf(key)]?.master)
      : this.#client
    // Both are queued in one turn, so nothing comes between them.
    const pair = [client.sendCommand(command), client.sendCommand(['WAIT', String(replicas), String(timeoutMs)])]
    const [reply, count] = await Promise.allSettled(pair)
    if (reply?.status !== 'fulfilled') {
      if (isCluster(this.#client)) findAgain(this.#client, key, reply?.reason)
      throw reply?.reason
    }
    if (count?.status !== 'fulfilled') throw count?.reason
    return [reply.value, Number(count.value)]
  }

  masters(): ((command: readonly string[]) => Promise<unknown>)[] {
    const client = this.#client
    if (!isCluster(client)) return [(command) => client.sendCommand(command)]
    return client.masters.map((master) => async (command) => {
      // The library would connect once more to a node that it has dropped, and never close that connection.
      if (!client.masters.includes(master)) throw new Error('CLUSTERDOWN that node is no master any more')
      return await (await clientOf(client, master)).sendCommand(command)
    })
  }

  async listen(channel: string, heard: (message: string) => void, back: () => void): Promise<void> {
    if (isCluster(this.#client)) return await this.#listenOnNode(channel, heard, back, 0)
    const inbox = ours(this.#client.duplicate())
    this.#inbox = inbox
    await subscribe(inbox, channel, heard)
    if (this.#closed) return inbox.destroy()
    // The library subscribes again by itself, before it says that it is ready.
    inbox.on('ready', back)
    this.#keepAsking(inbox, () => {
      if (inbox.isOpen) inbox.destroy()
      this.#listenAgain(channel, heard, back, 0)
    })
  }

  onReconnect(back: () => void): void {
    this.#client.on('ready', back)
    this.#undo.push(() => this.#client.off('ready', back))
  }

  async another(): Promise<Wire> {
    const client = this.#client.duplicate()
    client.on('error', () => undefined)
    if ('unref' in client) client.unref()
    await client.connect()
    return new NodeRedisWire(client, this.#slotOf, true)
  }

  close(): Promise<void> {
    this.#closed = true
    for (const undo of this.#undo) undo()
    this.#stopAsking()
    if (this.#inbox?.isOpen) this.#inbox.destroy()
    if (this.#ours && this.#client.isOpen) this.#client.destroy()
    return Promise.resolve()
  }

  // A message published on any node reaches all of them, so the inbox may be anywhere: when its node goes, elsewhere.
  async #listenOnNode(
    channel: string,
    heard: (message: string) => void,
    back: () => void,
    turn: number,
  ): Promise<void> {
    const cluster = this.#client as NodeRedisCluster
    const master = cluster.masters[turn % cluster.masters.length]
    const inbox = ours((await clientOf(cluster, master)).duplicate())
    let isThere = false
    // At once: a client that is destroyed any later has begun to connect again, and that connection would be nobody's.
    const broken = (): void => {
      if (inbox.isOpen) inbox.destroy()
      if (isThere) this.#listenAgain(channel, heard, back, turn + 1)
      isThere = false
    }
    inbox.on('error', broken)
    await subscribe(inbox, channel, heard)
    isThere = true
    this.#inbox = inbox
    if (this.#closed) inbox.destroy()
    else this.#keepAsking(inbox, broken)
  }

  #listenAgain(channel: string, heard: (message: string) => void, back: () => void, turn: number): void {
    setTimeout(() => {
      if (this.#closed) return
      const there = isCluster(this.#client)
        ? this.#listenOnNode(channel, heard, back, turn)
        : this.listen(channel, heard, back)
      there.then(back, () => this.#listenAgain(channel, heard, back, turn + 1))
    }, NEXT_NODE_MS).unref()
  }

  #keepAsking(inbox: NodeRedisClient, broken: () => void): void {
    this.#stopAsking()
    if (this.#closed) return
    // The library keeps its socket to itself, so questions and their answers are counted; that the connection broke is one.
    const count = { bytesRead: 0, bytesWritten: 0 }
    const answered = (): void => void (count.bytesRead += 1)
    const ask = (): void => {
      if (!inbox.isReady) return
      count.bytesWritten += 1
      inbox.sendCommand(['PING']).then(answered, answered)
    }
    this.#stopAsking = onSilence(() => count, broken, ask)
  }
}

function isCluster(client: NodeRedisClient | NodeRedisCluster): client is NodeRedisCluster {
  return 'masters' in client
}

function ours(client: NodeRedisClient): NodeRedisClient {
  // Every command in need of the connection is told by its own rejection.
  client.on('error', () => undefined)
  client.unref()
  return client
}

async function subscribe(inbox: NodeRedisClient, channel: string, heard: (message: string) => void): Promise<void> {
  try {
    await inbox.connect()
    await inbox.subscribe(channel, heard)
  } catch (error) {
    if (inbox.isOpen) inbox.destroy()
    throw error
  }
}

/** Another node has the slot now. The library looks who only for commands of which it chooses the node itself. */
function findAgain(cluster: NodeRedisCluster, key: string, error: unknown): void {
  const isElsewhere = error instanceof Error && /^(MOVED|ASK|CLUSTERDOWN)\b/.test(error.message)
  // The command that failed is asked again by core; should this fail too, so is this.
  if (isElsewhere) cluster.sendCommand(key, false, ['EXISTS', key]).catch(() => undefined)
}

async function clientOf(cluster: NodeRedisCluster, node: object | undefined): Promise<NodeRedisClient> {
  if (node === undefined) throw new Error('CLUSTERDOWN no node is known for that slot')
  return (await cluster.nodeClient(node as never)) as NodeRedisClient
}
