import { rmSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Server,
  startEtcd,
  startMariadb,
  startMemcached,
  startPostgres,
  startRedis,
  startZookeeper,
} from '../test/servers/index.js'
import { forgetPath, temporaryDirectory } from '../test/servers/watchdog.js'
import type { StoreName } from './recipe.js'

/** A store, running: started once and used by all cells that need it. */
export interface Rig {
  readonly store: StoreName
  readonly ttlMs: number
  /** None for a store that is a file. */
  readonly servers: readonly Server[]
  /** What recipes are told, with these ports (of proxies) in place of the servers' own. */
  urls(ports: readonly number[]): string[]
  stop(): Promise<void>
}

/** A ttl that no hold of a short situation outlives: for what must be seen while a hold is surely good. */
export const LONG_TTL_MS = 8_000

/** The stores whose leases come in whole seconds get one; the others are quicker. */
const TTL_MS: Readonly<Partial<Record<StoreName, number>>> = { memcached: 1_000, etcd: 1_000 }
const USUAL_TTL_MS = 700

export async function startRig(store: StoreName): Promise<Rig> {
  const ttlMs = TTL_MS[store] ?? USUAL_TTL_MS
  if (store === 'sqlite') return sqliteRig(ttlMs)
  const servers = await STARTERS[store]()
  // A careful quorum lets a server vote only when it has been up for longer than any hold that it may have forgotten.
  if (store === 'redlock') await new Promise((resolve) => setTimeout(resolve, LONG_TTL_MS + 500))
  return {
    store,
    ttlMs,
    servers,
    urls: (ports) => servers.map(({ url, port }, index) => url.replace(`:${port}`, `:${ports[index] ?? port}`)),
    stop: async () => void (await Promise.all(servers.map((server) => server.stop()))),
  }
}

const STARTERS: Readonly<Record<Exclude<StoreName, 'sqlite'>, () => Promise<readonly Server[]>>> = {
  // Without persistence, as most containers and most managed caches run it.
  redis: async () => [await startRedis()],
  redlock: async () => await Promise.all([1, 2, 3, 4, 5].map(async () => await startRedis())),
  memcached: async () => [await startMemcached()],
  postgres: async () => [await startPostgres()],
  // The harness lets MariaDB write its log once a second, which a kill -9 would show; nobody runs it so.
  mysql: async () => [await startMariadb({ args: ['--innodb-flush-log-at-trx-commit=1'] })],
  zookeeper: async () => [await startZookeeper({ tickTime: 100 })],
  // A quick heartbeat: the shortest lease that etcd gives is one and a half election time-outs, in whole seconds.
  etcd: async () => [await startEtcd({ args: ['--heartbeat-interval', '50', '--election-timeout', '500'] })],
}

function sqliteRig(ttlMs: number): Rig {
  const directory = temporaryDirectory('lab')
  return {
    store: 'sqlite',
    ttlMs,
    servers: [],
    urls: () => [`sqlite:${join(directory, 'lab.db')}`],
    stop: async () => {
      rmSync(directory, { recursive: true, force: true })
      forgetPath(directory)
    },
  }
}
