import { type Handles, type IoredisClient, type IoredisCluster, isCluster, NEVER_AGAIN } from './ioredis-client.js'
import { packetSender, type SendPacket } from './ioredis-packets.js'
import { quiet } from './ioredis-quiet.js'
import { slotOf } from './keys.js'
import { type Counted, onSilence } from './silence.js'
import type { Wire } from './wire.js'
import { packet, type Words } from './words.js'

/** How long the inbox of a Cluster waits before it tries the next node. */
const NEXT_NODE_MS = 200
/** How long a client that the library has ended rests before it is connected again. */
const REVIVE_MS = 100

/** Talks through ioredis. */
export class IoredisWire implements Wire {
  readonly cluster: boolean
  readonly ownPrefix: string
  readonly #client: IoredisClient | IoredisCluster
  readonly #ours: boolean
  readonly #sendPacket: SendPacket | undefined
  readonly #undo: (() => void)[] = []
  #inbox: IoredisClient | undefined
  #stopAsking: () => void = () => undefined
  #closed = false

  /** `ours`: to be closed with the wire. */
  static async on(client: IoredisClient | IoredisCluster, ours: boolean): Promise<IoredisWire> {
    return new IoredisWire(client, ours, await packetSender(client))
  }

  private constructor(client: IoredisClient | IoredisCluster, ours: boolean, sendPacket: SendPacket | undefined) {
    this.#client = client
    this.#ours = ours
    this.cluster = isCluster(client)
    this.ownPrefix = client.options.keyPrefix ?? ''
    this.#sendPacket = sendPacket
    if (!ours) return
    quiet(client)
    this.#revive(client)
    if (isCluster(client)) return
    this.#undo.push(onSilence(socketOf(client), () => client.disconnect(true)))
  }

  send(command: readonly string[]): Promise<unknown> {
    return this.#client.call(command[0]!, command.slice(1))
  }

  sendAround(before: Words, word: string, after: Words): Promise<unknown> {
    if (this.#sendPacket === undefined) return this.send([...before.list, word, ...after.list])
    return this.#sendPacket(packet(before, word, after))
  }

  async sendAndWait(
    command: readonly string[],
    key: string,
    replicas: number,
    timeoutMs: number,
  ): Promise<[unknown, number]> {
    const wait = ['WAIT', String(replicas), String(timeoutMs)]
    if (isCluster(this.#client)) return await this.#onNode(this.#client, command, key, wait)
    return await inARow(this.#client, [command, wait])
  }

  // On the connection of the one node, and not as a pipeline of the Cluster: where that finds the first command's node
  // gone, it counts the second as sent on another one, and from then on every reply there is taken for the one before.
  async #onNode(
    cluster: IoredisCluster,
    command: readonly string[],
    key: string,
    wait: readonly string[],
  ): Promise<[unknown, number]> {
    try {
      const node = nodeAt(cluster, cluster.slots[slotOf(this.ownPrefix + key)]?.[0])
      return await inARow(node, [prefixed(command, node, this.ownPrefix), wait])
    } catch (error) {
      const [, word, address] = /^(MOVED|ASK) \d+ (\S+)/.exec(error instanceof Error ? error.message : '') ?? []
      // Another has the slot now, or nobody answers for it: look who does, before it is asked for again.
      if (word !== 'ASK') {
        cluster.refreshSlotsCache()
        throw error
      }
      const node = nodeAt(cluster, address)
      return await inARow(node, [['ASKING'], prefixed(command, node, this.ownPrefix), wait])
    }
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
    this.#revive(inbox)
    this.#keepAsking(inbox, () => inbox.disconnect(true))
    // Should it fail, the connection broke again, and is ready again later.
    inbox.on('ready', () => void inbox.subscribe(channel).then(back, () => undefined))
  }

  onReconnect(back: () => void): void {
    this.#client.on('ready', back)
    this.#undo.push(() => this.#client.off('ready', back))
  }

  async another(): Promise<Wire> {
    // Nothing is sent again by the library: a WAIT that comes alone over a new connection waits for nothing.
    const settings = { lazyConnect: true, ...NEVER_AGAIN }
    const client = isCluster(this.#client) ? this.#client.duplicate() : this.#client.duplicate(settings)
    const wire = await IoredisWire.on(client, true)
    if (client.status === 'wait') await client.connect()
    return wire
  }

  close(): Promise<void> {
    this.#closed = true
    for (const undo of this.#undo) undo()
    this.#stopAsking()
    this.#inbox?.disconnect()
    if (this.#ours) this.#client.disconnect()
    return Promise.resolve()
  }

  // The library gives a client up for good when a failover is told of in the very moment in which it asks the Sentinels
  // for the master. For all that is known here, the master may be there again any time.
  #revive(client: IoredisClient | IoredisCluster): void {
    const revive = (): void => {
      setTimeout(() => {
        if (!this.#closed && client.status === 'end') client.connect().catch(() => undefined)
      }, REVIVE_MS).unref()
    }
    client.on('end', revive)
    this.#undo.push(() => client.off('end', revive))
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
    let next = turn
    const move = (): void => {
      if (this.#closed) return
      next += 1
      setTimeout(() => {
        if (this.#closed) return
        this.#listenOnNode(channel, heard, back, next).then(back, move)
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
    this.#keepAsking(inbox, () => inbox.disconnect())
  }

  #keepAsking(inbox: IoredisClient, broken: () => void): void {
    this.#stopAsking()
    if (this.#closed) return
    // Any answer will do, also that it may not be asked.
    const ask = (): void => void (inbox.status === 'ready' && inbox.call('ping', []).catch(() => undefined))
    this.#stopAsking = onSilence(socketOf(inbox), broken, ask)
  }
}

function socketOf(client: IoredisClient): () => Counted | undefined {
  return () => (client as unknown as Handles).stream
}

function nodeAt(cluster: IoredisCluster, address: string | undefined): IoredisClient {
  const node = cluster.nodes('all').find(({ options: { host, port } }) => `${host}:${port}` === address)
  if (node === undefined) throw new Error('CLUSTERDOWN no node is known for that slot')
  return node
}

/** A script call, its keys as the library would have sent them through the Cluster. */
function prefixed(command: readonly string[], node: IoredisClient, prefix: string): readonly string[] {
  if (prefix === (node.options.keyPrefix ?? '')) return command
  const end = 3 + Number(command[2])
  return command.map((word, i) => (i >= 3 && i < end ? prefix + word : word))
}

/** Written in one turn, so nothing comes between them: the replies of the last two. */
async function inARow(client: IoredisClient, commands: readonly (readonly string[])[]): Promise<[unknown, number]> {
  // All are waited for, so that none is left without a handler.
  const results = await Promise.allSettled(commands.map(([name, ...args]) => client.call(name!, args)))
  const [reply, count] = results.slice(-2).map((result) => {
    if (result.status === 'rejected') throw result.reason
    return result.value
  })
  return [reply, Number(count)]
}
