import type { ConnectionOptions } from 'node:tls'
import type { Backend } from '../../core/backend.js'
import { ConfigError } from '../../core/errors.js'
import { MemcachedBackend } from './backend.js'
import type { Address } from './client/connection.js'
import { Keys } from './keys.js'

export interface MemcachedOptions {
  /** 'host' or 'host:port', or taken apart. Every client must list the same servers, written the same way. */
  readonly servers: readonly (string | { readonly host: string; readonly port?: number })[]
  /** For servers with an auth file (`memcached -Y`). */
  readonly username?: string
  readonly password?: string
  /** TLS: true, or options of `tls.connect` such as `ca`. */
  readonly tls?: boolean | ConnectionOptions
  /** Goes before every key; 'holdfast:' when left out. */
  readonly prefix?: string
  /** How long the server may take to answer; 2000 when left out. */
  readonly timeoutMs?: number
}

const DEFAULT_PORT = 11_211
const DEFAULT_TIMEOUT_MS = 2_000

/**
 * A store in memcached, for efficiency only: whoever must never be two needs another store.
 *
 * It brings its own small client, because none on npm has both compare-and-swap and a way not to keep the
 * process alive.
 */
export function memcached(options: MemcachedOptions): Backend {
  const { servers, username, password, tls, prefix = 'holdfast:', timeoutMs = DEFAULT_TIMEOUT_MS } = options
  if (servers.length === 0) throw new ConfigError("memcached needs at least one server, such as 'localhost:11211'.")
  if (!(timeoutMs > 0)) throw new ConfigError('timeoutMs of memcached must be a number of milliseconds above 0.')
  return new MemcachedBackend(servers.map(toAddress), { username, password, tls, timeoutMs }, new Keys(prefix))
}

function toAddress(server: MemcachedOptions['servers'][number]): Address {
  if (typeof server !== 'string') return { host: server.host, port: server.port ?? DEFAULT_PORT }
  const match = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(server)
  const host = match?.[1] ?? match?.[2]
  if (host === undefined) throw new ConfigError("A memcached server is written 'host' or 'host:port'.")
  return { host, port: match?.[3] === undefined ? DEFAULT_PORT : Number(match[3]) }
}
