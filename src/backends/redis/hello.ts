import { BackendError, ConfigError } from '../../core/errors.js'
import type { Wire } from './wire.js'

/** What the server says of itself. */
export interface Hello {
  readonly majorVersion: number
}

/** Asks the server what it is, and refuses one that cannot do. HELLO needs no more rights than connecting does. */
export async function hello(wire: Wire): Promise<Hello> {
  const facts = await ask(wire)
  const version = facts.get('version') ?? ''
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major < 6 || (major === 6 && minor < 2)) {
    throw new ConfigError(`That server is Redis ${version}; Holdfast needs 6.2 or later.`)
  }
  const mode = facts.get('mode')
  if (mode === 'sentinel') {
    throw new ConfigError('That server is a Sentinel: use redis+sentinel://HOST:PORT/MASTER-NAME.')
  }
  if (mode === 'cluster' && !wire.cluster) {
    throw new ConfigError('That server is part of a Cluster: use redis+cluster://, or a Cluster client.')
  }
  if (!wire.cluster && facts.get('role') === 'replica') {
    throw new BackendError(
      'That Redis server is a replica and takes no writes: connect to its master, or use redis+sentinel://.',
      {
        retryable: false,
      },
    )
  }
  return { majorVersion: major }
}

async function ask(wire: Wire): Promise<Map<string, string>> {
  let reply: unknown
  try {
    reply = await wire.send(['HELLO'])
  } catch (error) {
    if (error instanceof Error && /unknown command/i.test(error.message)) {
      throw new ConfigError('That server does not know HELLO; Holdfast needs Redis 6.2 or later.', { cause: error })
    }
    throw error
  }
  // A list of pairs, a Map or an object, as the library and the protocol version like it.
  if (Array.isArray(reply)) {
    const list = reply as unknown[]
    return new Map(list.flatMap((key, i) => (i % 2 === 0 ? [[String(key), String(list[i + 1])]] : [])))
  }
  if (reply instanceof Map) return new Map([...reply].map(([key, value]) => [String(key), String(value)]))
  return new Map(Object.entries(reply as object).map(([key, value]) => [key, String(value)]))
}
