/** Locks on a ZooKeeper ensemble: sequential ephemeral nodes, fenced by the transaction that created them. */
import type { ConnectionOptions } from 'node:tls'
import type { Backend } from '../../core/backend.js'
import { type Duration, durationMs } from '../../core/duration.js'
import { ConfigError } from '../../core/errors.js'
import { ZooKeeperBackend } from './backend.js'
import { CREATOR_ACL, OPEN_ACL } from './client/protocol.js'
import { UnfairBackend } from './unfair/backend.js'

export interface ZooKeeperOptions {
  /** The servers: 'a:2181,b:2181', or a list. */
  readonly hosts: string | readonly (string | { readonly host: string; readonly port?: number })[]
  /** Everything stands below this path; '/holdfast' when left out. */
  readonly path?: string
  /** How long a session outlives its last sign of life: 10 s when left out. The servers may give more or less. */
  readonly session?: Duration
  /** Digest authentication. */
  readonly user?: string
  readonly password?: string
  /** Who may touch our nodes: everyone, or who creates them. 'creator' when a user is given, else 'open'. */
  readonly acl?: 'open' | 'creator'
  /** TLS with these options of node:tls. */
  readonly tls?: ConnectionOptions
  /** Mutexes and read-write locks stand below this path by their plain names, shared with Curator and kazoo. */
  readonly curator?: string
  /** What the servers have as tickTime; 2 s when left out, and never counted as more than half a session. */
  readonly tick?: Duration
  /** Parents as containers, which the servers remove when empty (the default), or as plain nodes. */
  readonly parents?: 'container' | 'persistent'
  /** One plain node a mutex, taken by whoever is quickest: no line, and every waiter is woken by every release. */
  readonly unfair?: boolean
}

const DEFAULT_PORT = 2181
const DEFAULT_PATH = '/holdfast'
const DEFAULT_SESSION_MS = 10_000
const DEFAULT_TICK_MS = 2_000
/** The protocol has 31 bits for it. */
const MOST_SESSION_MS = 2 ** 31 - 1

/** Locks on ZooKeeper. The connection is our own, and closed with the client. */
export function zookeeper(options: ZooKeeperOptions): Backend {
  const { user, password = '', tls, curator } = options
  if ((user ?? '') === '' && password !== '') {
    throw new ConfigError(
      'password: it needs a user. Without one nobody is logged in, and everyone may touch the nodes.',
    )
  }
  const acl = options.acl ?? (user === undefined ? 'open' : 'creator')
  if (acl === 'creator' && user === undefined) {
    throw new ConfigError("acl: 'creator' needs a user and password: the creator must be somebody.")
  }
  const shared = curator === undefined ? {} : { curator: checkPath(curator) }
  if (options.unfair === true && curator !== undefined) {
    throw new ConfigError('unfair: Curator keeps a line; a lock that is shared with it cannot be unfair.')
  }
  const Kind = options.unfair === true ? UnfairBackend : ZooKeeperBackend
  return new Kind({
    session: {
      hosts: parseHosts(options.hosts),
      timeoutMs: options.session === undefined ? DEFAULT_SESSION_MS : checkSession(options.session),
      tickMs: options.tick === undefined ? DEFAULT_TICK_MS : checkTick(options.tick),
      ...(tls === undefined ? {} : { tls }),
      ...(user === undefined ? {} : { auth: { user, password } }),
    },
    places: { base: checkPath(options.path ?? DEFAULT_PATH), ...shared },
    acl: acl === 'open' ? OPEN_ACL : CREATOR_ACL,
    container: options.parents !== 'persistent',
    ...(shared.curator === undefined ? {} : { shared: shared.curator }),
  })
}

function checkSession(session: Duration): number {
  const ms = durationMs(session, 'session')
  if (ms > MOST_SESSION_MS) throw new ConfigError(`session: at most ${MOST_SESSION_MS} ms, which is more than 24 days.`)
  return ms
}

function checkTick(tick: Duration): number {
  const ms = durationMs(tick, 'tick')
  if (ms === 0) throw new ConfigError("tick: what the servers have as tickTime, such as '2s'; it is never 0.")
  return ms
}

function checkPort(port: number): number {
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return port
  throw new ConfigError('hosts: a port is a whole number from 1 to 65535.')
}

function parseHosts(hosts: ZooKeeperOptions['hosts']): { host: string; port: number }[] {
  const list = typeof hosts === 'string' ? hosts.split(',') : hosts
  if (list.length === 0) throw new ConfigError("hosts: name at least one server, such as 'localhost:2181'.")
  return list.map((one) => {
    if (typeof one !== 'string') return { host: one.host, port: checkPort(one.port ?? DEFAULT_PORT) }
    const match = /^(\[[^\]]+\]|[^:]+)(?::(\d{1,5}))?$/.exec(one.trim())
    if (match === null) throw new ConfigError('hosts: a server is of the form HOST or HOST:PORT.')
    return { host: match[1]!.replace(/^\[|\]$/g, ''), port: checkPort(Number(match[2] ?? DEFAULT_PORT)) }
  })
}

function checkPath(path: string): string {
  if (path === '/') return path
  const fine = /^(\/[^/]+)+$/.test(path) && !/\/\.{1,2}(\/|$)/.test(path) && !/^\/zookeeper(\/|$)/.test(path)
  if (!fine) throw new ConfigError(`'${path}' is not a path below which locks can stand. Write one such as '/locks'.`)
  return path
}
