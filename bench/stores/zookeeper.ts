import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect as connectSocket } from 'node:net'
import { connect } from 'holdfast'
import { answered, type Created, ZooKeeperClient } from '../../src/backends/zookeeper/client/client.js'
import { CODE, ZooKeeperError } from '../../src/backends/zookeeper/client/errors.js'
import { MODE, OPEN_ACL } from '../../src/backends/zookeeper/client/protocol.js'
import { ensure, startZookeeper } from '../../test/servers/index.js'
import { type Contender, type Extra, goal, type StoreBench } from '../contender.js'
import { type ForeignResult, java, measure } from '../foreign/run.js'
import { holdfast } from '../holdfast.js'
import { kept, longLine } from '../kept.js'

const JARS = [
  'curator-recipes',
  'curator-framework',
  'curator-client',
  'zookeeper',
  'zookeeper-jute',
  'slf4j-api',
  'slf4j-nop',
  'guava',
]
const DATA = new Uint8Array(200)
/** Filled by the extras, which are measured before the goals are read. */
const foreign: Record<string, ForeignResult> = {}

async function openClient(url: string): Promise<ZooKeeperClient> {
  const { hostname: host, port } = new URL(url)
  return await new Promise((resolve) => {
    const client: ZooKeeperClient = new ZooKeeperClient(
      { hosts: [{ host, port: Number(port) }], timeoutMs: 10_000, tickMs: 200 },
      { connected: () => resolve(client), disconnected: () => undefined, expired: () => undefined },
    )
    client.session.start()
  })
}

async function makeNode(client: ZooKeeperClient, path: string): Promise<void> {
  try {
    await answered<Created>((reply) => client.create(path, DATA, OPEN_ACL, MODE.persistent, reply))
  } catch (error) {
    if (!(error instanceof ZooKeeperError) || error.code !== CODE.nodeExists) throw error
  }
}

/** An ephemeral sequential node, created and deleted: what a lock cannot do without. */
const raw: Contender = {
  name: 'raw create + delete',
  role: 'raw',
  not: { drain: 'no lock', hot: 'no lock' },
  open: async (url) => {
    // The client by itself never keeps a process alive.
    const alive = setInterval(() => undefined, 1_000)
    const client = await openClient(url)
    await makeNode(client, '/raw')
    return {
      acquire: async () => {
        const { path } = await answered<Created>((reply) =>
          client.create('/raw/n-', DATA, OPEN_ACL, MODE.ephemeralSequential, reply),
        )
        return () => answered<true>((reply) => client.delete(path, reply))
      },
      close: async () => {
        clearInterval(alive)
        await client.session.close()
      },
    }
  },
}

/** Packets that the server received so far. */
async function received(url: string): Promise<number> {
  const { hostname: host, port } = new URL(url)
  const socket = connectSocket({ host, port: Number(port) })
  socket.end('srvr')
  let text = ''
  socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
  await once(socket, 'close')
  return Number(/Received: (\d+)/.exec(text)?.[1])
}

/** What a hand-off costs the server, with so many waiters from two clients, one and the other by turns. */
async function requestsPerHandOff(url: string, waiters: number): Promise<number> {
  const clients = [await connect(url), await connect(url)]
  const name = `hand-off:${waiters}`
  const first = await clients[0]!.lock(name).acquire()
  const handOffs = 40
  let served = 0
  let done = (): void => undefined
  const enough = new Promise<void>((resolve) => (done = resolve))
  const giveUp = new AbortController()
  const all = Array.from({ length: waiters + handOffs }, async (_, i) => {
    const lease = await clients[i % 2]!.lock(name).acquire({ signal: giveUp.signal })
    served += 1
    if (served === handOffs) done()
    if (served < handOffs) await lease.release()
  })
  while ((await clients[0]!.view(name))[0]!.tickets.length < waiters + handOffs + 1) {
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const before = await received(url)
  await first.release()
  await enough
  const after = await received(url)
  giveUp.abort()
  await Promise.allSettled(all)
  await Promise.all(clients.map((client) => client.close()))
  return (after - before) / handOffs
}

async function extras(url: string): Promise<Extra[]> {
  await ensure('javac', '/usr/share/java/curator-recipes.jar')
  await ensure('/usr/lib/python3/dist-packages/kazoo/__init__.py')
  const hosts = new URL(url).host
  const alive = setInterval(() => undefined, 1_000)
  const client = await openClient(url)
  const holding = (parent: string) => async () => {
    await makeNode(client, parent)
    await makeNode(client, `${parent}/drain`)
    const path = `${parent}/drain/_c_${randomUUID()}-lock-`
    const node = await answered<Created>((reply) =>
      client.create(path, DATA, OPEN_ACL, MODE.ephemeralSequential, reply),
    )
    return () => answered<true>((reply) => client.delete(node.path, reply))
  }
  const curator = await java('CuratorBench', JARS)
  foreign['Curator'] = await measure(curator, hosts, holding('/curator'))
  await curator.remove()
  const kazoo = { name: 'kazoo', command: ['/usr/bin/python3', 'bench/foreign/kazoo_bench.py'] }
  foreign['kazoo'] = await measure(kazoo, hosts, holding('/kazoo'))
  await client.session.close()
  clearInterval(alive)
  const few = await requestsPerHandOff(url, 10)
  const many = await requestsPerHandOff(url, 1_000)
  return [
    ...Object.entries(foreign).map(([title, result]) => ({
      title,
      values: {
        '1 in flight, pairs/s': result.sequential,
        '64 in flight, pairs/s': result.inflight,
        'drain 2×50, ms': result.drainMs,
        'hot key/s': result.hotTotal / 3,
      },
    })),
    {
      title: 'requests per hand-off, two clients by turns',
      values: { '10 waiters': few, '1,000 waiters': many },
      goals: [goal('requests per hand-off, 1,000 waiters to 10', many / few, '≤', 1.2)],
    },
    await kept(url),
    await longLine(url),
  ]
}

const store: StoreBench = {
  name: 'zookeeper',
  start: async () => {
    const server = await startZookeeper()
    return { url: server.url, stop: () => server.stop() }
  },
  contenders: [raw, holdfast],
  extras,
  goals: (results) => {
    const ours = results['holdfast']!
    const base = results['raw create + delete']!
    const curator = foreign['Curator']!
    const kazoo = foreign['kazoo']!
    return [
      goal('sequential to raw', ours.sequential! / base.sequential!, '≥', 0.8),
      goal('sequential to Curator', ours.sequential! / curator.sequential, '≥', 1),
      goal('64 in flight to Curator', ours.inflight! / curator.inflight, '≥', 1.5),
      goal('64 in flight to kazoo', ours.inflight! / kazoo.inflight, '≥', 3),
      goal("drain to Curator's", ours.drain!.ms / curator.drainMs, '≤', 1),
      goal('hot key to Curator', ours.hot!.total / curator.hotTotal, '≥', 1),
    ]
  },
}
export default store
