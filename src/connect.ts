import { defaultUrl } from './connect/default.js'
import { parseStoreUrl, type StoreUrl } from './connect/url.js'
import type { Backend } from './core/backend.js'
import { ConfigError } from './core/errors.js'
import { clientDefaults, Holdfast, type HoldfastOptions } from './core/holdfast.js'

/** Makes a backend from a URL. One file a store; the optional client libraries are imported there and nowhere else. */
interface Opener {
  open(url: StoreUrl): Promise<Backend> | Backend
  /** Stores that keep tables: what must be there, as text and as a deed. */
  migration?(url: StoreUrl): Promise<Migration>
}

/** What a store must have before it can be used. */
export interface Migration {
  print(): string
  run(): Promise<void>
}

/** The stores by the scheme of their URL. */
const OPENERS: Record<string, () => Promise<Opener>> = {
  'memory:': () => import('./connect/memory.js'),
  'postgres:': () => import('./connect/postgres.js'),
  'postgresql:': () => import('./connect/postgres.js'),
  'redis:': () => import('./connect/redis.js'),
  'rediss:': () => import('./connect/redis.js'),
  'redis+sentinel:': () => import('./connect/redis.js'),
  'redis+cluster:': () => import('./connect/redis.js'),
  'redlock:': () => import('./connect/redlock.js'),
  'etcd:': () => import('./connect/etcd.js'),
  'mysql:': () => import('./connect/mysql.js'),
  'mariadb:': () => import('./connect/mysql.js'),
  'sqlite:': () => import('./connect/sqlite.js'),
  'memcached:': () => import('./connect/memcached.js'),
  'memcacheds:': () => import('./connect/memcached.js'),
  'zookeeper:': () => import('./connect/zookeeper.js'),
}

/**
 * Connects to a store by its URL: the one given, else HOLDFAST_URL, else the embedded default,
 * a SQLite file in the user's state directory.
 */
export async function connect(url?: string, options: HoldfastOptions = {}): Promise<Holdfast> {
  // Before anything is opened: nobody would close it.
  clientDefaults(options)
  const client = new Holdfast(await openBackend(url ?? (process.env['HOLDFAST_URL'] || defaultUrl())), options)
  await client.ready()
  return client
}

/** The backend that a URL names, not yet opened. */
export async function openBackend(text: string): Promise<Backend> {
  const url = parseStoreUrl(text)
  return await (await opener(url)).open(url)
}

/** What the store of a URL must have made for it; undefined when it needs nothing. */
export async function openMigration(text?: string): Promise<Migration | undefined> {
  const url = parseStoreUrl(text ?? (process.env['HOLDFAST_URL'] || defaultUrl()))
  return await (await opener(url)).migration?.(url)
}

async function opener(url: StoreUrl): Promise<Opener> {
  const load = OPENERS[url.scheme]
  if (load === undefined) {
    throw new ConfigError(`There is no store for '${url.scheme}'. Known: ${Object.keys(OPENERS).join(' ')}`)
  }
  return await load()
}
