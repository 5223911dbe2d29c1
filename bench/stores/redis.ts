import { randomBytes, randomUUID } from 'node:crypto'
import { connect } from 'holdfast'
import { startRedis } from '../../test/servers/index.js'
import { best, type Contender, type Extra, goal, type StoreBench } from '../contender.js'
import { holdfast } from '../holdfast.js'
import { kept, longLine } from '../kept.js'
import { importPeer } from '../peer.js'

/** What is used of ioredis. */
export interface Client {
  set(key: string, value: string, px: 'PX', ms: number, nx: 'NX'): Promise<string | null>
  evalsha(sha: string, keys: number, ...args: string[]): Promise<unknown>
  script(command: 'LOAD', text: string): Promise<unknown>
  call(command: string, ...args: string[]): Promise<unknown>
  monitor(): Promise<Client>
  on(event: string, listener: (time: string, args: string[], source: string) => void): void
  disconnect(): void
}

interface Library {
  readonly Redis: new (url: string) => Client
}

/** The version that the peers want. */
export async function ioredis(url: string): Promise<Client> {
  const { Redis } = await importPeer<Library>('ioredis')
  return new Redis(url)
}

/** The version that Holdfast runs on here: what it costs beyond its library is to be seen. */
async function ownIoredis(url: string): Promise<Client> {
  const { Redis } = (await import('ioredis')) as unknown as Library
  return new Redis(url)
}

const TTL_MS = 30_000
const COMPARE_AND_DELETE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0"

/** Asks for a key by hand, and lets go of it by a compare-and-delete: no line, no renewal. It cannot wait. */
function byHand(
  name: string,
  taker: (client: Client) => Promise<(key: string, value: string) => Promise<unknown>>,
): Contender {
  return {
    name,
    role: 'raw',
    not: { drain: 'it cannot wait', hot: 'it cannot wait' },
    open: async (url) => {
      const client = await ownIoredis(url)
      const take = await taker(client)
      const sha = String(await client.script('LOAD', COMPARE_AND_DELETE))
      return {
        acquire: async (lock) => {
          const key = `${name}:${lock}`
          const value = randomBytes(16).toString('hex')
          if ((await take(key, value)) === null) throw new Error('held')
          return () => client.evalsha(sha, 1, key, value)
        },
        close: async () => client.disconnect(),
      }
    },
  }
}

const raw = byHand('raw ioredis', async (client) => (key, value) => client.set(key, value, 'PX', TTL_MS, 'NX'))

const SET_AND_DRAW = `
  if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
  local time = redis.call('time')
  local fence = string.format('%.0f', math.max(time[1] * 1000000 + time[2], (redis.call('get', KEYS[2]) or 0) + 1))
  redis.call('set', KEYS[2], fence)
  return fence`

/** The same with a fence, and nothing else: what a fence costs whoever wants one, for it can only be drawn by a script. */
const fenced = byHand('raw, fenced', async (client) => {
  const sha = String(await client.script('LOAD', SET_AND_DRAW))
  return (key, value) => client.evalsha(sha, 2, key, 'fenced', value, String(TTL_MS))
})

interface Redlock {
  lock(name: string, ttl: number): Promise<{ unlock(): Promise<unknown> }>
}

/** redlock 4 waits by trying again; its default is ten times, so that it gives up: here it goes on. */
export function redlock(name: string, options: object, clients: (url: string) => Promise<Client[]>): Contender {
  return {
    name,
    role: 'peer',
    open: async (url) => {
      const { default: Redlock } = await importPeer<{ default: new (c: Client[], o: object) => Redlock }>('redlock')
      const nodes = await clients(url)
      const locker = new Redlock(nodes, { retryCount: -1, ...options })
      return {
        acquire: async (key) => {
          const lock = await locker.lock(`redlock:${key}`, TTL_MS)
          return () => lock.unlock()
        },
        close: async () => nodes.forEach((node) => node.disconnect()),
      }
    },
  }
}

interface Semaphore {
  Mutex: new (client: Client, key: string, options: object) => { acquire(): Promise<void>; release(): Promise<unknown> }
}

function redisSemaphore(name: string, options: object): Contender {
  return {
    name,
    role: 'peer',
    open: async (url) => {
      const { Mutex } = await importPeer<Semaphore>('redis-semaphore')
      const client = await ioredis(url)
      return {
        acquire: async (key) => {
          const mutex = new Mutex(client, key, { lockTimeout: TTL_MS, acquireTimeout: 60_000, ...options })
          await mutex.acquire()
          return () => mutex.release()
        },
        close: async () => client.disconnect(),
      }
    },
  }
}

interface Verrou {
  createLock(name: string, ttl: number): { acquire(): Promise<boolean>; release(): Promise<void> }
}

function verrou(name: string, retry: object): Contender {
  return {
    name,
    role: 'peer',
    open: async (url) => {
      const { Verrou } = await importPeer<{ Verrou: new (options: object) => Verrou }>('@verrou/core')
      const { redisStore } = await importPeer<{ redisStore: (o: object) => object }>('@verrou/core/drivers/redis')
      const connection = await ioredis(url)
      const locks = new Verrou({ default: 'redis', stores: { redis: { driver: redisStore({ connection }), retry } } })
      return {
        acquire: async (key) => {
          const lock = locks.createLock(`verrou:${key}`, TTL_MS)
          if (!(await lock.acquire())) throw new Error('not acquired')
          return () => lock.release()
        },
        close: async () => connection.disconnect(),
      }
    },
  }
}

interface Universal {
  createLock: (options: object) => { acquire(): Promise<object>; release(handle: object): Promise<boolean> }
  IoredisAdapter: new (client: Client) => object
}

function universal(name: string, options: object): Contender {
  return {
    name,
    role: 'peer',
    open: async (url) => {
      const { createLock, IoredisAdapter } = await importPeer<Universal>('redlock-universal')
      const client = await ioredis(url)
      const adapter = new IoredisAdapter(client)
      return {
        acquire: async (key) => {
          const lock = createLock({
            adapter,
            key: `universal:${key}`,
            ttl: TTL_MS,
            retryAttempts: 1_000_000,
            ...options,
          })
          const handle = await lock.acquire()
          return () => lock.release(handle)
        },
        close: async () => client.disconnect(),
      }
    },
  }
}

const one = async (url: string): Promise<Client[]> => [await ioredis(url)]
const AT_DEFAULTS = ['verrou', 'redlock', 'redis-semaphore', 'redlock-universal']
const AT_10_MS = AT_DEFAULTS.map((name) => `${name}, 10 ms`)

const store: StoreBench = {
  name: 'redis',
  start: async () => await startRedis(),
  contenders: [
    raw,
    fenced,
    verrou('verrou', {}),
    redlock('redlock', {}, one),
    redisSemaphore('redis-semaphore', {}),
    universal('redlock-universal', {}),
    ...[
      verrou('verrou, 10 ms', { delay: 10 }),
      redlock('redlock, 10 ms', { retryDelay: 10, retryJitter: 0 }, one),
      redisSemaphore('redis-semaphore, 10 ms', { retryInterval: 10 }),
      universal('redlock-universal, 10 ms', { retryDelay: 10 }),
    ].map((peer) => ({ ...peer, not: { sequential: 'as above', inflight: 'as above', hot: 'as above' } })),
    holdfast,
  ],
  goals: (results) => {
    const ours = results['holdfast']!
    const bare = results['raw ioredis']!
    const drain = (names: readonly string[]): number =>
      Math.min(...names.map((name) => results[name]?.drain?.ms ?? Infinity))
    return [
      goal(
        'sequential pairs/s, fenced, against raw SET NX PX + EVALSHA',
        ours.sequential! / bare.sequential!,
        '≥',
        0.9,
      ),
      goal('64 in flight against raw', ours.inflight! / bare.inflight!, '≥', 1.5),
      goal('64 in flight against the best peer', ours.inflight! / best(results, AT_DEFAULTS, 'inflight'), '≥', 1.8),
      goal('drain 2 × 50 against ideal', ours.drain!.ms / ours.drain!.idealMs, '≤', 1.4),
      goal('drain, faster than the best peer at its defaults', drain(AT_DEFAULTS) / ours.drain!.ms, '≥', 3),
      goal('drain, faster than the best peer at a 10 ms retry', drain(AT_10_MS) / ours.drain!.ms, '≥', 1.4),
      goal('hot key, most served against least served', ours.hot!.most / ours.hot!.least, '≤', 1.2),
    ]
  },
  extras: async (url) => [await commands(url), await longLine(url), await kept(url)],
}
export default store

/** What clients send for a hand-off while many wait: by MONITOR, without what scripts do inside. */
async function commands(url: string): Promise<Extra> {
  const counts: Record<string, number> = {}
  for (const waiting of [100, 10_000]) counts[`with ${waiting} waiting`] = await commandsPerHandOff(url, waiting)
  return {
    title: 'Redis commands a hand-off (counted by MONITOR, renewals of those who wait left out)',
    values: counts,
    goals: Object.entries(counts).map(([what, count]) => goal(`commands a hand-off ${what}`, count, '≤', 4)),
  }
}

async function commandsPerHandOff(url: string, waiting: number): Promise<number> {
  const handOffs = 50
  const name = `commands:${waiting}`
  // Those who only wait are another client, whose renewals are not part of a hand-off.
  const [busy, idle] = [await connect(url), await connect(url)]
  const first = await busy.lock(name).acquire()
  const turns = Array.from({ length: handOffs }, async () => await (await busy.lock(name).acquire()).release())
  const stop = new AbortController()
  await until(async () => (await busy.view(name))[0]?.tickets.length === handOffs + 1)
  const rest = Array.from({ length: waiting }, () =>
    idle
      .lock(name)
      .acquire({ signal: stop.signal })
      .then(
        (lease) => lease.release(),
        () => undefined,
      ),
  )
  await until(async () => (await busy.view(name))[0]?.tickets.length === handOffs + 1 + waiting)
  const control = await ioredis(url)
  const monitor = await control.monitor()
  const marker = randomUUID()
  let count = 0
  const ended = new Promise<void>((resolve) => {
    monitor.on('monitor', (_time, args, source) => {
      if (args.includes(marker)) resolve()
      // A renewal of those who wait carries many items; a hand-off's own calls carry few.
      else if (source !== 'lua' && args.length < 30) count += 1
    })
  })
  await first.release()
  await Promise.all(turns)
  await control.call('PING', marker)
  await ended
  stop.abort(new Error('measured'))
  await Promise.all(rest)
  monitor.disconnect()
  control.disconnect()
  await Promise.all([busy.close(), idle.close()])
  return count / handOffs
}

async function until(look: () => Promise<boolean>): Promise<void> {
  while (!(await look())) await new Promise((resolve) => setTimeout(resolve, 50))
}
