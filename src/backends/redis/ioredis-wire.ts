import { type Counted, onSilence } from './silence.js'
import type { Wire } from './wire.js'

/** What is used of an ioredis `Redis`. Written out here, so that the package's types do not need the library. */
export interface IoredisClient {
  readonly status: string
  readonly options: { readonly keyPrefix?: string | undefined }
  call(command: string, args: string[]): Promise<unknown>
  on(event: string, listener: (...args: unknown[]) => void): unknown
  off(event: string, listener: (...args: unknown[]) => void): unknown
  duplicate(override?: object): IoredisClient
  connect(): Promise<void>
  subscribe(channel: string): Promise<unknown>
  disconnect(reconnect?: boolean): void
}

/** What is used of an ioredis `Cluster`. */
export interface IoredisCluster {
  readonly isCluster: boolean
  readonly status: string
  readonly options: { readonly keyPrefix?: string | undefined }
  call(command: string, args: string[]): Promise<unknown>
  on(event: string, listener: (...args: unknown[]) => void): unknown
  off(event: string, listener: (...args: unknown[]) => void): unknown
  nodes(role?: 'all' | 'master' | 'slave'): IoredisClient[]
  pipeline(commands: unknown[][]): { exec(): Promise<[Error | null, unknown][] | null> }
  duplicate(): IoredisCluster
  connect(): Promise<void>
  disconnect(): void
}

/** How long the inbox of a Cluster waits before it tries the next node. */
const NEXT_NODE_MS = 200

/** Talks through ioredis. */
export class IoredisWire implements Wire {
  readonly cluster: boolean
  readonly ownPrefix: string
  readonly #client: IoredisClient | IoredisCluster
  readonly #ours: boolean
  readonly #undo: (() => void)[] = []
  #inbox: IoredisClient | undefined
  #closed = false

  constructor(client: IoredisClient | IoredisCluster, ours: boolean) {
    this.#client = client
    this.#ours = ours
    this.cluster = isCluster(client)
    this.ownPrefix = client.options.keyPrefix ?? ''
    if (!ours) return
    quiet(client)
    if (isCluster(client)) return
    const socket = (): Counted | undefined => (client as unknown as Handles).stream
    this.#undo.push(onSilence(socket, () => client.disconnect(true)))
  }

  send(command: readonly string[]): Promise<unknown> {
    return this.#client.call(command[0]!, command.slice(1))
  }

  async sendAndWait(
    command: readonly string[],
    _key: string,
    replicas: number,
    timeoutMs: number,
  ): Promise<[unknown, number]> {
    const wait = ['wait', String(replicas), String(timeoutMs)]
    if (!isCluster(this.#client)) {
      // Both are written in one turn, so nothing comes between them.
      const [reply, count] = await settled([this.send(command), this.send(wait)])
      return [reply, Number(count)]
    }
    const [name, ...args] = command
    const answers = await this.#client.pipeline([[name!.toLowerCase(), ...args], wait]).exec()
    const [reply, count] = answers ?? []
    if (reply === undefined || count === undefined) throw new Error('The connection was closed')
    if (reply[0] !== null) throw reply[0]
    if (count[0] !== null) throw count[0]
    return [reply[1], Number(count[1])]
  }

  masters(): ((command: readonly string[]) => Promise<unknown>)[] {
    const nodes = isCluster(this.#client) ? this.#client.nodes('master') : [this.#client]
    return nodes.map((node) => (command) => node.call(command[0]!, command.slice(1)))
  }

  async listen(channel: string, heard: (message: string) => void, back: () => void): Promise<void> {
    if (isCluster(this.#client)) return await this.#listenOnNode(channel, heard, back, 0)
    // The library's own re-subscription has no handler when the connection breaks again under it: an unhandled rejection.
    const settings = { keyPrefix: '', lazyConnect: true, enableReadyCheck: true, autoResubscribe: false }
    const inbox = this.#client.duplicate(settings)
    quiet(inbox)
    this.#inbox = inbox
    inbox.on('message', (_channel, message) => heard(String(message)))
    await inbox.connect()
    await inbox.subscribe(channel)
    // Should it fail, the connection broke again, and is ready again later.
    inbox.on('ready', () => void inbox.subscribe(channel).then(back, () => undefined))
  }

  onReconnect(back: () => void): void {
    this.#client.on('ready', back)
    this.#undo.push(() => this.#client.off('ready', back))
  }

  async another(): Promise<Wire> {
    const client = isCluster(this.#client) ? this.#client.duplicate() : this.#client.duplicate({ lazyConnect: true })
    const wire = new IoredisWire(client, true)
    if (client.status === 'wait') await client.connect()
    return wire
  }

  close(): Promise<void> {
    this.#closed = true
    for (const undo of this.#undo) undo()
    this.#inbox?.disconnect()
    if (this.#ours) this.#client.disconnect()
    return Promise.resolve()
  }

  // A message published on any node reaches all of them, so the inbox may be anywhere: when its node goes, elsewhere.
  async #listenOnNode(
    channel: string,
    heard: (message: string) => void,
    back: () => void,
    turn: number,
  ): Promise<void> {
    const nodes = (this.#client as IoredisCluster).nodes('all')
    const node = nodes[turn % nodes.length]
    if (node === undefined) throw new Error('The Cluster has no node that can be reached')
    const inbox = node.duplicate({ keyPrefix: '', lazyConnect: true, retryStrategy: null, enableReadyCheck: false })
    quiet(inbox)
    this.#inbox = inbox
    inbox.on('message', (_channel, message) => heard(String(message)))
    const move = (): void => {
      if (this.#closed) return
      setTimeout(() => {
        if (this.#closed) return
        this.#listenOnNode(channel, heard, back, turn + 1).then(back, move)
      }, NEXT_NODE_MS).unref()
    }
    try {
      await inbox.connect()
      await inbox.subscribe(channel)
    } catch (error) {
      inbox.disconnect()
      throw error
    }
    inbox.on('end', move)
  }
}

function isCluster(client: IoredisClient | IoredisCluster): client is IoredisCluster {
  return 'isCluster' in client && client.isCluster
}

/** Both outcomes are waited for, so that neither is left without a handler. */
async function settled(pair: [Promise<unknown>, Promise<unknown>]): Promise<unknown[]> {
  const results = await Promise.allSettled(pair)
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason
    return result.value
  })
}

interface Handles {
  readonly stream?: Counted & { unref?(): void }
  readonly reconnectTimeout?: { unref?(): void } | null
}

/** A connection of ours never keeps the process alive, and never ends it by an 'error' that nobody heard. */
function quiet(client: IoredisClient | IoredisCluster): void {
  // Every command in need of the connection is told by its own rejection.
  client.on('error', () => undefined)
  const unref = (): void => {
    const { stream, reconnectTimeout } = client as unknown as Handles
    stream?.unref?.()
    reconnectTimeout?.unref?.()
  }
  client.on('connect', unref)
  client.on('reconnecting', unref)
  if (isCluster(client)) {
    for (const node of client.nodes('all')) quiet(node)
    client.on('+node', (node) => quiet(node as IoredisClient))
  }
  unref()
}
