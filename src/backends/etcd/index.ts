import type { Backend } from '../../core/backend.js'
import { ConfigError } from '../../core/errors.js'
import type { Endpoint, TlsOptions } from './connection.js'
import { EtcdBackend } from './etcd-backend.js'

export interface EtcdOptions {
  /** The members: 'host:port', or 'host' for port 2379. Any one that works is used. */
  readonly hosts: readonly string[]
  readonly user?: string
  readonly password?: string
  /**
   * What all keys begin with; 'holdfast/' when left out. A mutex lies at prefix + name + '/', where `etcdctl lock` and
   * Go's concurrency.NewMutex(session, prefix + name) meet it.
   */
  readonly prefix?: string
  /** Given: TLS, with these certificates; `{}` trusts the system's certificate authorities. */
  readonly tls?: TlsOptions
  /** How long one call may take, from 1 ms to 10 min; 4 s when left out. */
  readonly callTimeoutMs?: number
}

export type { TlsOptions }

const DEFAULT_PORT = 2379
const LONGEST_CALL_MS = 600_000

/** A line in an etcd cluster (3.4 or later), over HTTP/2 with no client library. */
export function etcd(options: EtcdOptions): Backend {
  const { hosts, user, password, prefix = 'holdfast/', tls, callTimeoutMs = 4_000 } = options
  if (hosts.length === 0) throw new ConfigError("etcd: name at least one member, such as hosts: ['localhost:2379'].")
  if (password !== undefined && user === undefined) throw new ConfigError('etcd: there is a password but no user.')
  if (!Number.isInteger(callTimeoutMs) || callTimeoutMs < 1 || callTimeoutMs > LONGEST_CALL_MS) {
    throw new ConfigError(`etcd: \`callTimeoutMs\` is a whole number from 1 to ${LONGEST_CALL_MS}.`)
  }
  return new EtcdBackend({
    endpoints: hosts.map((host) => ({ ...parseEndpoint(host), ...(tls === undefined ? {} : { tls }) })),
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    prefix,
    callTimeoutMs,
  })
}

function parseEndpoint(text: string): Endpoint {
  const match = /^(\[[^\]]+\]|[^:/\s]+)(?::(\d+))?$/.exec(text)
  const port = match?.[2] === undefined ? DEFAULT_PORT : Number(match[2])
  if (match === null || port < 1 || port > 65_535) {
    throw new ConfigError("etcd: a host is 'HOST' or 'HOST:PORT' (1 to 65535), without a scheme.")
  }
  return { host: match[1]!.replace(/^\[|\]$/g, ''), port }
}
