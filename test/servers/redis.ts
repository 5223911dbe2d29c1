import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ensure, outsideUrl } from './install.js'
import { outsideServer } from './outside.js'
import { freePort, freePorts } from './ports.js'
import { ask } from './probe.js'
import { flags, type Server, startServer } from './process.js'
import type { TurnedClock } from './turned-clock.js'
import { temporaryDirectory } from './watchdog.js'

export interface RedisOptions {
  /** Keep data over a restart (append-only file, written at every command). */
  readonly persistence?: boolean
  /** Further arguments of redis-server: ['--maxmemory', '2mb']. */
  readonly args?: readonly string[]
  /** Its wall clock, for the test to turn. */
  readonly clock?: TurnedClock
}

/** One Redis server. */
export async function startRedis(options: RedisOptions = {}): Promise<Server> {
  const outside = outsideUrl('redis-server')
  if (outside !== undefined) return outsideServer(outside, 6379)
  const file = await ensure('redis-server')
  const port = await freePort()
  const directory = temporaryDirectory('redis')
  const persistence = options.persistence === true ? { appendonly: 'yes', appendfsync: 'always' } : {}
  const settings = { port: String(port), bind: '127.0.0.1', dir: directory, save: '', 'protected-mode': 'no' }
  const args = [...flags({ ...settings, ...persistence }), ...(options.args ?? [])]
  return await startServer({
    name: 'Redis',
    url: `redis://127.0.0.1:${port}`,
    port,
    directory,
    file,
    args,
    ...(options.clock === undefined ? {} : { env: await options.clock.env(directory) }),
    ready: () => answers(port),
  })
}

/** A master with replicas, watched by sentinels that know it as `mymaster`. */
export interface RedisSentinels {
  readonly url: string
  readonly master: Server
  readonly replicas: readonly Server[]
  readonly sentinels: readonly Server[]
  stop(): Promise<void>
}

export async function startSentinel(options: RedisOptions & { replicas?: number } = {}): Promise<RedisSentinels> {
  // No wait before a copy is sent: the replica is there in milliseconds instead of five seconds.
  const args = [...flags({ 'repl-diskless-sync-delay': '0' }), ...(options.args ?? [])]
  const master = await startRedis({ ...options, args })
  const follow = [...args, '--replicaof', '127.0.0.1', String(master.port)]
  const replicas = await Promise.all(
    Array.from({ length: options.replicas ?? 1 }, () => startRedis({ ...options, args: follow })),
  )
  await Promise.all(replicas.map((replica) => until(() => replies(replica.port, 'INFO replication', 'link_status:up'))))
  const sentinels = await Promise.all([1, 2, 3].map(() => startOneSentinel(master.port)))
  const others = `num-other-sentinels\r\n$1\r\n2\r\n`
  const slaves = `num-slaves\r\n$1\r\n${replicas.length}\r\n`
  await Promise.all(
    sentinels.map(({ port }) =>
      until(async () => {
        const answer = await ask(port, 'SENTINEL MASTER mymaster\r\n')
        return answer !== undefined && answer.includes(others) && answer.includes(slaves)
      }),
    ),
  )
  const all = [...sentinels, ...replicas, master]
  return {
    url: `redis+sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/mymaster`,
    master,
    replicas,
    sentinels,
    stop: async () => void (await Promise.all(all.map((server) => server.stop()))),
  }
}

async function startOneSentinel(master: number): Promise<Server> {
  const file = await ensure('redis-server')
  const port = await freePort()
  const directory = temporaryDirectory('sentinel')
  const config = join(directory, 'sentinel.conf')
  // The sentinel writes what it learns into this file, so a restart knows it.
  writeFileSync(
    config,
    [
      `port ${port}`,
      'bind 127.0.0.1',
      'protected-mode no',
      `dir ${directory}`,
      `sentinel monitor mymaster 127.0.0.1 ${master} 2`,
      'sentinel down-after-milliseconds mymaster 1000',
      'sentinel failover-timeout mymaster 5000',
      'sentinel parallel-syncs mymaster 1',
    ].join('\n'),
  )
  return await startServer({
    name: 'Redis Sentinel',
    url: `redis://127.0.0.1:${port}`,
    port,
    directory,
    file,
    args: [config, '--sentinel'],
    // Sentinels ask each other every few seconds by default; so a test would wait that long for them to meet.
    ready: () =>
      replies(port, 'SENTINEL DEBUG INFO-PERIOD 500 PUBLISH-PERIOD 250 PING-PERIOD 250 ASK-PERIOD 250', 'OK'),
  })
}

/** Three masters, each with a replica. */
export interface RedisCluster {
  readonly url: string
  readonly nodes: readonly Server[]
  stop(): Promise<void>
}

export async function startCluster(options: RedisOptions = {}): Promise<RedisCluster> {
  const buses = await freePorts(6)
  const nodes = await Promise.all(
    buses.map((bus) =>
      startRedis({
        ...options,
        args: [
          ...flags({
            'cluster-enabled': 'yes',
            'cluster-port': String(bus),
            'cluster-node-timeout': '2000',
            'cluster-replica-validity-factor': '0',
            'repl-diskless-sync-delay': '0',
          }),
          ...(options.args ?? []),
        ],
      }),
    ),
  )
  const hosts = nodes.map(({ port }) => `127.0.0.1:${port}`)
  await promisify(execFile)(await ensure('redis-cli'), [
    '--cluster',
    'create',
    ...hosts,
    '--cluster-replicas',
    '1',
    '--cluster-yes',
  ])
  await Promise.all(nodes.map(({ port }) => until(async () => await replies(port, 'CLUSTER INFO', 'cluster_state:ok'))))
  // A failover is only possible once the replicas have their copy.
  await Promise.all(nodes.slice(3).map(({ port }) => until(() => replies(port, 'INFO replication', 'link_status:up'))))
  return {
    url: `redis+cluster://${hosts.slice(0, 3).join(',')}`,
    nodes,
    stop: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
  }
}

async function answers(port: number): Promise<boolean> {
  const answer = (await ask(port, 'PING\r\n'))?.toString() ?? ''
  // One that asks for a password answers, too.
  return answer.startsWith('+PONG') || answer.startsWith('-NOAUTH')
}

async function replies(port: number, command: string, text: string): Promise<boolean> {
  return (await ask(port, `${command}\r\n`))?.includes(text) ?? false
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 60_000
  while (!(await condition())) {
    if (Date.now() > end) throw new Error('The Redis servers did not find each other within a minute.')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
