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
  /** A ttl that no hold of a situation outlives: for what must be seen while a hold is surely good. */
  readonly longTtlMs: number
  /** Holds end with a session that heartbeats keep. */
  readonly sessions: boolean
  /** None for a store that is a file. */
  readonly servers: readonly Server[]
  /** What recipes are told, with these ports (of proxies) in place of the servers' own. */
  urls(ports: readonly number[]): string[]
  /** Whether these bytes from the store are an answer about this lock, not a heartbeat. */
  answers(chunk: Buffer, lock: string): boolean
  /** Resolves when a server that was restarted is as good as one that was not. */
  settled(): Promise<void>
  stop(): Promise<void>
}

/**
 * Long enough that a store does its work in it, short enough that nobody waits for long. Where heartbeats keep a session,
 * a ttl has to be so long that nobody in good health misses one on a busy machine.
 */
const TTL_MS: Readonly<Partial<Record<StoreName, number>>> = { memcached: 1_000, zookeeper: 2_000, etcd: 2_000 }
const USUAL_TTL_MS = 700
/** Longer than any server takes to start again. */
const LONG_TTL_MS = 30_000
/** Redis is up again at once; and a careful quorum waits for so long. */
const LONG_QUORUM_TTL_MS = 8_000
/** Uptime comes in whole seconds. */
const GRAIN_MS = 1_500

export async function startRig(store: StoreName): Promise<Rig> {
  const ttlMs = TTL_MS[store] ?? USUAL_TTL_MS
  if (store === 'sqlite') return sqliteRig(ttlMs)
  const servers = await STARTERS[store]()
  const settled = store === 'redlock' ? quorumSettled : async () => {}
  await settled()
  return {
    store,
    ttlMs,
    longTtlMs: store === 'redlock' ? LONG_QUORUM_TTL_MS : LONG_TTL_MS,
    sessions: store === 'zookeeper' || store === 'etcd',
    servers,
    answers: ANSWERS[store] ?? (() => true),
    settled,
    urls: (ports) => servers.map(({ url, port }, index) => url.replace(`:${port}`, `:${ports[index] ?? port}`)),
    stop: async () => void (await Promise.all(servers.map((server) => server.stop()))),
  }
}

/** Where heartbeats come the same way, what else is to be seen in an answer. */
const ANSWERS: Readonly<Partial<Record<StoreName, Rig['answers']>>> = {
  zookeeper: (chunk, lock) => chunk.includes(lock),
  etcd: (chunk) => beginsAnAnswer(chunk),
}

const FRAME_HEAD = 9
const HEADERS = 1

/** In HTTP/2 an answer begins with a frame of headers; pings, windows and what goes on in an open stream have none. */
function beginsAnAnswer(chunk: Buffer): boolean {
  for (let at = 0; at + FRAME_HEAD <= chunk.length; at += FRAME_HEAD + chunk.readUIntBE(at, 3)) {
    if (chunk[at + 3] === HEADERS) return true
  }
  return false
}

/** A careful quorum lets a server vote only when it has been up for longer than any hold that it may have forgotten. */
async function quorumSettled(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, LONG_QUORUM_TTL_MS + GRAIN_MS))
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
    longTtlMs: LONG_TTL_MS,
    sessions: false,
    servers: [],
    urls: () => [`sqlite:${join(directory, 'lab.db')}`],
    answers: () => true,
    settled: async () => {},
    stop: async () => {
      rmSync(directory, { recursive: true, force: true })
      forgetPath(directory)
    },
  }
}
