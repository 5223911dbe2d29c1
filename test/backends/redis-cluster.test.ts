import { randomUUID } from 'node:crypto'
import { Cluster, Redis } from 'ioredis'
import { createCluster } from 'redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { guarantees } from '../../src/backends/redis/guarantees.js'
import { redis } from '../../src/backends/redis/index.js'
import { Keys, slotOf } from '../../src/backends/redis/keys.js'
import { openPort } from '../../src/conformance/port.js'
import { eventually } from '../../src/conformance/wait.js'
import { connect } from '../../src/connect.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { KINDS } from '../../src/core/line.js'
import { type RedisCluster, startCluster } from '../servers/index.js'
import { describeBackend } from '../suite.js'

const ODD_NAMES = [
  'a}b',
  'a{}b',
  '{x}y',
  '{',
  '}',
  '}{',
  '{}',
  '{{x}}',
  'a{b',
  'a{b}c{d}e',
  '{}{x}',
  'ü{ö}ß',
  '{\n}',
  'plain',
]

describeBackend('redis on a Cluster', guarantees(true, 0), () => startCluster())

describe('redis on a Cluster, alone', () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await startCluster()
  })
  afterAll(() => cluster.stop())

  test('all keys of a line are in one slot, by the word of the server, whatever braces its name has', async () => {
    const client = new Cluster([{ host: '127.0.0.1', port: cluster.nodes[0]!.port }])
    for (const prefix of ['holdfast:', '', 'app}:', '{app}:']) {
      const keys = new Keys(prefix, '', true)
      for (const name of ODD_NAMES) {
        for (const kind of KINDS) {
          const { main, order, lease, tickets, slot } = keys.of({ kind, name })
          const all = [prefix + name, main, order, lease, tickets, keys.last(slot)]
          const slots = await Promise.all(all.map((key) => client.cluster('KEYSLOT', key)))
          expect(new Set(slots), `${prefix}${name}`).toEqual(new Set([slotOf(prefix + name)]))
        }
      }
    }
    client.disconnect()
  })

  test('a prefix that would break the slots is refused', () => {
    for (const prefix of ['a{b', '{}', '{', 'a{}b{c}'])
      expect(() => new Keys(prefix, '', true), prefix).toThrow('hash tag')
  })

  test('odd names are locked and waited for, through ioredis and through redis', async () => {
    const ioredis = new Cluster([{ host: '127.0.0.1', port: cluster.nodes[0]!.port }])
    const nodeRedis = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${cluster.nodes[1]!.port}` }] })
    await nodeRedis.connect()
    const [a, b] = [new Holdfast(redis(ioredis)), new Holdfast(redis(nodeRedis))]
    for (const name of ODD_NAMES) {
      const first = await a.lock(name).acquire()
      expect(await b.lock(name).tryAcquire()).toBeUndefined()
      const second = b.lock(name).acquire({ wait: '20s' })
      await new Promise((resolve) => setTimeout(resolve, 5))
      await first.release()
      const lease = await second
      expect(lease.fence > first.fence).toBe(true)
      await lease.release()
    }
    await Promise.all([a.close(), b.close()])
    ioredis.disconnect()
    nodeRedis.destroy()
  })

  test('an inbox that is killed again and again, also while it is made anew, is there afterwards, and only once', async () => {
    const nodeRedis = createCluster({ rootNodes: [{ url: cluster.nodes[0]!.url }] })
    nodeRedis.on('error', () => undefined)
    await nodeRedis.connect()
    const servers = cluster.nodes.map(({ url }) => new Redis(url))
    const inboxes = async (): Promise<number> => {
      const lists = await Promise.all(servers.map((server) => server.call('CLIENT', 'LIST', 'TYPE', 'pubsub')))
      return lists
        .join('')
        .split('\n')
        .filter((line) => line.includes('sub=1')).length
    }
    const others = await inboxes()
    const { backend, heard, join, leave } = await openPort(redis(nodeRedis), randomUUID().slice(0, 23))
    for (let i = 0; i < 40; i += 1) {
      await Promise.all(servers.map((server) => server.call('CLIENT', 'KILL', 'TYPE', 'pubsub')))
      await new Promise((resolve) => setTimeout(resolve, 25))
    }
    let round = 0
    // A grant is told once: while nobody listens, to nobody.
    await eventually('a grant is heard of', async () => {
      round += 1
      const [line, first, next] = [{ kind: 'mutex', name: `heard-${round}` } as const, `h${round}`, `w${round}`]
      await backend.join([join(line, first)])
      await backend.join([join(line, next)])
      await backend.leave([leave(line, first)])
      await new Promise((resolve) => setTimeout(resolve, 100))
      await backend.leave([leave(line, next)])
      return heard.grantedIds.includes(next)
    })
    await backend.close()
    await eventually('no inbox is left', async () => (await inboxes()) === others)
    nodeRedis.destroy()
    for (const server of servers) server.disconnect()
  })

  test('a plain URL to a server of a Cluster is refused with the URL to use', async () => {
    await expect(connect(cluster.nodes[0]!.url)).rejects.toMatchObject({
      code: 'CONFIG',
      message: expect.stringMatching(/redis\+cluster:/),
    })
  })

  test('many locks of many slots are taken in one call', async () => {
    const locks = await connect(cluster.url)
    const leases = await Promise.all(Array.from({ length: 200 }, (_, i) => locks.lock(`many-${i}`).acquire()))
    expect(leases.every((lease) => lease.state === 'held')).toBe(true)
    await Promise.all(leases.map((lease) => lease.release()))
    await locks.close()
  })
})
