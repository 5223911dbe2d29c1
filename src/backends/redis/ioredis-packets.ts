import type { IoredisClient, IoredisCluster } from './ioredis-client.js'

/** What is used of ioredis's `Command`. */
interface Command {
  readonly promise: Promise<unknown>
  toWritable(): unknown
}

interface Library {
  readonly Redis: new () => { sendCommand(command: Command): Promise<unknown> }
  readonly Command: new (name: string, args: readonly string[], options: { replyEncoding: 'utf8' }) => Command
}

/** Sends a script call that is spelt already. */
export type SendPacket = (text: string) => Promise<unknown>

/**
 * Spelling a command word by word is the larger part of what ioredis does for a call. Through its own `Command`, with the
 * text given, all else stays the library's: the queues, time-outs, sending again after the connection broke.
 * Undefined where the library has to know the words (a Cluster's slot, a prefix of the keys), or where the client is of
 * another copy of the library than the one that is found from here.
 */
export async function packetSender(client: IoredisClient | IoredisCluster): Promise<SendPacket | undefined> {
  if ((client.options.keyPrefix ?? '') !== '') return undefined
  const { Redis, Command } = await library()
  if (Redis === undefined || Command === undefined || !(client instanceof Redis)) return undefined

  class Packet extends Command {
    readonly #text: string

    constructor(text: string) {
      super('evalsha', [], { replyEncoding: 'utf8' })
      this.#text = text
    }

    override toWritable(): string {
      return this.#text
    }
  }

  return (text) => client.sendCommand(new Packet(text))
}

async function library(): Promise<Partial<Library>> {
  try {
    return (await import('ioredis')) as unknown as Library
  } catch {
    // The client came from elsewhere: it is used as it is.
    return {}
  }
}
