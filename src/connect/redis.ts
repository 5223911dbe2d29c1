import { readFileSync } from 'node:fs'
import type { ClusterOptions, RedisOptions as ClientOptions } from 'ioredis'
import { type IoredisClient, type IoredisCluster, ownRedis, type RedisOptions } from '../backends/redis/index.js'
import { NEVER_AGAIN } from '../backends/redis/ioredis-client.js'
import type { Backend, FloorBackend } from '../core/backend.js'
import { durationMs } from '../core/duration.js'
import { ConfigError } from '../core/errors.js'
import { checkQuery, type StoreUrl } from './url.js'

const COMMON = ['prefix', 'replicas', 'replicaTimeout', 'tls', 'ca', 'cert', 'key', 'servername']

/** `redis://`, `rediss://`, `redis+sentinel://A,B/MASTER` and `redis+cluster://A,B`. */
export async function open(url: StoreUrl): Promise<Backend> {
  return await openRedis(url)
}

export async function openRedis(url: StoreUrl): Promise<FloorBackend> {
  const { Redis, Cluster } = await library()
  const options = backendOptions(url)
  const settings = clientSettings(url)
  switch (url.scheme) {
    case 'redis+sentinel:': {
      checkQuery(url, [...COMMON, 'db', 'sentinelUser', 'sentinelPassword', 'sentinelTls'])
      const name = url.path.replace(/^\//, '')
      if (name === '')
        throw new ConfigError(
          'A redis+sentinel:// URL ends in the name of the master: redis+sentinel://HOST:26379/mymaster',
        )
      return ownRedis(throughSentinels(url, Redis, { ...settings, name, db: number(url, 'db') ?? 0 }), options)
    }
    case 'redis+cluster:': {
      checkQuery(url, COMMON)
      if (database(url.path) !== 0)
        throw new ConfigError('A Cluster has database 0 only: leave out the path of the URL.')
      const cluster: ClusterOptions = {
        // A connection that owes an answer for so long is broken: no call outlives it.
        redisOptions: { ...settings, socketTimeout: 10_000 },
        lazyConnect: true,
        enableOfflineQueue: false,
        slotsRefreshTimeout: 2_000,
        clusterRetryStrategy: (times) => Math.min(50 * times, 1_000),
        // Core tries again: here only what a moving slot needs.
        maxRedirections: 5,
        retryDelayOnClusterDown: 100,
        retryDelayOnFailover: 100,
      }
      return ownRedis(new Cluster(hosts(url, 6379), cluster), options)
    }
    default: {
      checkQuery(url, COMMON)
      const [host] = hosts(url, 6379)
      if (url.hosts.length > 1)
        throw new ConfigError(
          `A ${url.scheme}// URL names one host. Several: redis+sentinel://, redis+cluster:// or redlock://.`,
        )
      return ownRedis(new Redis({ ...settings, ...host!, db: database(url.path) }), options)
    }
  }
}

/** What is used of the library; its own overloads tell apart kinds of replies that do not matter here. */
interface Library {
  readonly Redis: new (options: ClientOptions) => IoredisClient
  readonly Cluster: new (nodes: { host: string; port: number }[], options: ClusterOptions) => IoredisCluster
}

async function library(): Promise<Library> {
  try {
    return (await import('ioredis')) as unknown as Library
  } catch (error) {
    throw new ConfigError('A Redis URL needs the package ioredis: run: npm install ioredis', { cause: error })
  }
}

function clientSettings(url: StoreUrl): ClientOptions {
  return {
    ...(url.user === undefined ? {} : { username: url.user }),
    ...(url.password === undefined ? {} : { password: url.password }),
    ...tls(url),
    lazyConnect: true,
    ...NEVER_AGAIN,
    connectTimeout: 5_000,
    retryStrategy: (times) => Math.min(25 * 2 ** Math.min(times, 6), 1_000),
  }
}

function tls(url: StoreUrl): ClientOptions {
  const file = (name: string): string | undefined => url.query.get(name) ?? undefined
  const asked = flag(url, 'tls') ?? url.scheme === 'rediss:'
  if (!asked && url.scheme === 'rediss:') throw new ConfigError('rediss:// is TLS: leave out tls, or write redis://.')
  const files = Object.fromEntries(
    (['ca', 'cert', 'key'] as const).flatMap((name) => {
      const path = file(name)
      return path === undefined ? [] : [[name, readFileSync(path)]]
    }),
  )
  const servername = url.query.get('servername')
  if (!asked) {
    if (Object.keys(files).length > 0 || servername !== null)
      throw new ConfigError('The URL names a certificate or server name but not TLS: write rediss:// or tls=true.')
    return {}
  }
  return { tls: { ...files, ...(servername === null ? {} : { servername }) } }
}

/** Sentinels that never answered are a wrong address, and said to be; those that once did are waited for. */
function throughSentinels(url: StoreUrl, Redis: Library['Redis'], settings: ClientOptions): IoredisClient {
  let answered = false
  // Null ends the client for good: a failover that takes longer than a few tries must not.
  const sentinelRetryStrategy = (times: number): number | null =>
    times > 20 && !answered ? null : Math.min(times * 50, 500)
  const client = new Redis({ ...settings, ...sentinelSettings(url), sentinelRetryStrategy })
  client.on('ready', () => void (answered = true))
  return client
}

function sentinelSettings(url: StoreUrl): ClientOptions {
  const user = url.query.get('sentinelUser')
  const password = url.query.get('sentinelPassword')
  const secure = flag(url, 'sentinelTls') ?? false
  return {
    sentinels: hosts(url, 26_379),
    ...(user === null ? {} : { sentinelUsername: user }),
    ...(password === null ? {} : { sentinelPassword: password }),
    ...(secure ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {}),
    failoverDetector: true,
  }
}

function hosts(url: StoreUrl, port: number): { host: string; port: number }[] {
  if (url.hosts.length === 0) return [{ host: 'localhost', port }]
  return url.hosts.map((each) => ({ host: each.host, port: each.port ?? port }))
}

/** What is misspelt must not mean no. */
function flag(url: StoreUrl, name: string): boolean | undefined {
  const text = url.query.get(name)
  if (text === null) return undefined
  if (['1', 'true', 'yes'].includes(text)) return true
  if (['0', 'false', 'no'].includes(text)) return false
  throw new ConfigError(`${name} is true or false, not '${text}'.`)
}

function database(path: string): number {
  if (path === '' || path === '/') return 0
  const match = /^\/(\d+)$/.exec(path)
  if (match === null) throw new ConfigError("The path of a redis:// URL is the number of a database, such as '/0'.")
  return Number(match[1])
}

function backendOptions(url: StoreUrl): RedisOptions {
  const prefix = url.query.get('prefix')
  const replicas = number(url, 'replicas')
  const timeout = url.query.get('replicaTimeout')
  return {
    ...(prefix === null ? {} : { prefix }),
    ...(replicas === undefined ? {} : { replicas }),
    ...(timeout === null ? {} : { replicaTimeoutMs: durationMs(timeout, 'replicaTimeout') }),
  }
}

function number(url: StoreUrl, name: string): number | undefined {
  const text = url.query.get(name)
  if (text === null) return undefined
  if (!/^\d+$/.test(text)) throw new ConfigError(`'${name}' in the ${url.scheme}// URL must be a whole number.`)
  return Number(text)
}
