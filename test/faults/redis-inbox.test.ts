import { randomUUID } from 'node:crypto'
import { Cluster, Redis } from 'ioredis'
import { createClient, createCluster } from 'redis'
import { afterEach, expect, test } from 'vitest'
import { ownRedis, redis } from '../../src/backends/redis/index.js'
import { NEVER_AGAIN } from '../../src/backends/redis/ioredis-client.js'
import { openPort } from '../../src/conformance/port.js'
import { eventually } from '../../src/conformance/wait.js'
import type { Backend } from '../../src/core/backend.js'
import { type Proxy, type Server, startCluster, startProxy, startRedis } from '../servers/index.js'

/** Something between forgets the connection on which a client is told of its grants; the one for its calls goes on. */

const cleanUp: (() => unknown)[] = []
afterEach(async () => {
  for (const undo of cleanUp.splice(0).toReversed()) await undo()
})

const LONG_MS = 60_000

async function proxyTo(server: Server): Promise<Proxy> {
  const proxy = await startProxy(server)
  cleanUp.push(() => proxy.stop())
  return proxy
}

/** Kills the inboxes of all, without a word to them, and has each hear again. */
async function forgetInboxes(
  servers: readonly Server[],
  proxies: readonly Proxy[],
  backends: readonly Backend[],
): Promise<void> {
  const ones = servers.map(({ url }) => new Redis(url))
  cleanUp.push(() => ones.forEach((one) => one.disconnect()))
  const inboxes = async (): Promise<number> =>
    (await Promise.all(ones.map((one) => one.call('PUBSUB', 'CHANNELS')))).flat().length
  const ports = await Promise.all(backends.map((backend) => openPort(backend, randomUUID().slice(0, 23))))
  expect(await inboxes()).toBe(backends.length)

  for (const proxy of proxies) proxy.forgets = true
  await Promise.all(ones.map((one) => one.call('CLIENT', 'KILL', 'TYPE', 'pubsub')))
  expect(await inboxes()).toBe(0)
  await eventually('all listen again', async () => (await inboxes()) === backends.length, LONG_MS)

  for (const [i, { backend, heard, join, leave }] of ports.entries()) {
    const line = { kind: 'mutex', name: `heard-${i}` } as const
    await backend.join([join(line, `a${i}`)])
    await backend.join([join(line, `b${i}`)])
    await backend.leave([leave(line, `a${i}`)])
    await eventually('the grant is heard of', () => heard.grantedIds.includes(`b${i}`), LONG_MS)
    await backend.close()
  }
  await eventually('no inbox is left', async () => (await inboxes()) === 0, LONG_MS)
}

test('one server: an inbox that was forgotten is made anew, by URL, through ioredis and through redis', async () => {
  const server = await startRedis()
  cleanUp.push(() => server.stop())
  const proxy = await proxyTo(server)
  const own = new Redis(proxy.port, { lazyConnect: true, ...NEVER_AGAIN })
  const ioredis = new Redis(proxy.port)
  cleanUp.push(() => ioredis.disconnect())
  const [nodeRedis, inOldWords] = [3, 2].map((RESP) =>
    createClient({ url: `redis://127.0.0.1:${proxy.port}`, RESP: RESP as 2 | 3 }),
  )
  for (const client of [nodeRedis!, inOldWords!]) {
    client.on('error', () => undefined)
    await client.connect()
    cleanUp.push(() => client.destroy())
  }
  await forgetInboxes([server], [proxy], [ownRedis(own), redis(ioredis), redis(nodeRedis!), redis(inOldWords!)])
})

test('a Cluster: an inbox that was forgotten is made anew, through ioredis and through redis', async () => {
  const cluster = await startCluster()
  cleanUp.push(() => cluster.stop())
  const proxies = await Promise.all(cluster.nodes.map(proxyTo))
  const [{ port }] = proxies as [Proxy]
  const host = '127.0.0.1'
  const ways = Object.fromEntries(
    cluster.nodes.map((node, i) => [`${host}:${node.port}`, { host, port: proxies[i]!.port }]),
  )
  const ioredis = new Cluster([{ host, port }], { natMap: ways })
  cleanUp.push(() => ioredis.disconnect())
  const nodeRedis = createCluster({ rootNodes: [{ url: `redis://${host}:${port}` }], nodeAddressMap: ways })
  nodeRedis.on('error', () => undefined)
  await nodeRedis.connect()
  cleanUp.push(() => nodeRedis.destroy())
  await forgetInboxes(cluster.nodes, proxies, [redis(ioredis), redis(nodeRedis)])
})
