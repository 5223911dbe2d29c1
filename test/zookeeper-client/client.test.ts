import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { Belief } from '../../src/backends/zookeeper/client/belief.js'
import {
  answered,
  type Created,
  type Data,
  found,
  ZooKeeperClient,
} from '../../src/backends/zookeeper/client/client.js'
import { CODE } from '../../src/backends/zookeeper/client/errors.js'
import { Reader, Writer } from '../../src/backends/zookeeper/client/jute.js'
import { EVENT, MODE, type MultiResult, OPEN_ACL, type Stat } from '../../src/backends/zookeeper/client/protocol.js'
import {
  createTogether,
  type Creation,
  deleteTogether,
  type Deletion,
} from '../../src/backends/zookeeper/client/together.js'
import type { SessionOptions } from '../../src/backends/zookeeper/client/session.js'
import { type Proxy, type Server, startProxy, startZookeeper } from '../servers/index.js'

const EVENTUALLY = { timeout: 20_000, interval: 10 }
const EMPTY = new Uint8Array(0)

interface Opened {
  client: ZooKeeperClient
  log: string[]
}

let server: Server
let proxy: Proxy
const opened: ZooKeeperClient[] = []

beforeAll(async () => {
  server = await startZookeeper()
  proxy = await startProxy(server)
})
afterEach(async () => {
  await proxy.heal()
  await Promise.all(opened.splice(0).map((client) => client.session.close()))
})
afterAll(async () => {
  await proxy.stop()
  await server.stop()
})

async function open(port: number, change: Partial<SessionOptions> = {}): Promise<Opened> {
  const log: string[] = []
  const options = { hosts: [{ host: '127.0.0.1', port }], timeoutMs: 2_000, tickMs: 200, ...change }
  const client = new ZooKeeperClient(options, {
    connected: (fresh) => void log.push(fresh ? 'new session' : 'back'),
    disconnected: () => void log.push('broken'),
    expired: () => void log.push('expired'),
  })
  opened.push(client)
  client.session.start()
  await vi.waitFor(() => expect(log).toContain('new session'), EVENTUALLY)
  return { client, log }
}

const create = (client: ZooKeeperClient, path: string, mode: (typeof MODE)[keyof typeof MODE]): Promise<Created> =>
  answered<Created>((reply) => client.create(path, Buffer.from('data'), OPEN_ACL, mode, reply))

const stat = (client: ZooKeeperClient, path: string): Promise<Stat | undefined> =>
  found<Stat>((reply) => client.exists(path, undefined, reply))

test('jute: what is written is read', () => {
  const long = 'ü€😀'.repeat(200)
  const packet = new Writer()
    .int(-7)
    .long(-(2n ** 62n))
    .bool(true)
    .text(long)
    .buffer(EMPTY)
    .vector([1, 2], () => undefined)
  const reader = new Reader(packet.packet().subarray(4))
  expect([reader.int(), reader.long(), reader.bool(), reader.text(), reader.buffer().length, reader.int()]).toEqual([
    -7,
    -(2n ** 62n),
    true,
    long,
    0,
    2,
  ])
  expect(reader.left).toBe(0)
  expect(() => new Reader(new Writer().int(100).packet().subarray(4)).text()).toThrow(RangeError)
})

test('belief: an answer proves only what the leader must have heard by then', () => {
  const belief = new Belief(200)
  belief.attached(1_000, 1_010, 2_000, true)
  expect(belief.until).toBe(3_000)
  // Answered at once and often: what half a tick before the previous exchange was answered is what counts.
  for (let at = 1_200; at <= 2_000; at += 200) belief.answered(belief.sending(at), at + 5)
  expect(belief.until).toBe(1_600 + 2_000)
  // An answer after a long silence proves no more than the exchange before the silence.
  belief.answered(belief.sending(3_500), 3_505)
  expect(belief.until).toBe(1_800 + 2_000)
})

describe('requests', () => {
  test('create, read, list, delete, and their errors', async () => {
    const { client } = await open(server.port)
    const made = await create(client, '/a', MODE.persistent)
    expect(made).toMatchObject({ path: '/a', stat: { ephemeralOwner: 0n, numChildren: 0 } })
    const node = await create(client, '/a/n-', MODE.ephemeralSequential)
    expect(node.path).toBe('/a/n-0000000000')
    expect(node.stat.czxid).toBeGreaterThan(made.stat.czxid)
    expect(node.stat.ephemeralOwner).toBe(client.session.id)
    const { data } = await answered<Data>((reply) => client.getData(node.path, undefined, reply))
    expect(data.toString()).toBe('data')
    expect(await answered<string[]>((reply) => client.getChildren('/a', undefined, reply))).toEqual(['n-0000000000'])
    await expect(create(client, '/a', MODE.persistent)).rejects.toMatchObject({ code: CODE.nodeExists })
    await expect(answered<true>((reply) => client.delete('/a', reply))).rejects.toMatchObject({ code: CODE.notEmpty })
    expect(await found<Stat>((reply) => client.exists('/none', undefined, reply))).toBeUndefined()
    await answered<true>((reply) => client.delete(node.path, reply))
    await answered<true>((reply) => client.delete('/a', reply))
  })

  test('are pipelined: a read that is sent behind a write sees it', async () => {
    const { client } = await open(server.port)
    const answers: string[] = []
    const done = Promise.all(
      Array.from({ length: 200 }, (_, i) => [
        create(client, `/p${i}`, MODE.ephemeral).then(() => void answers.push(`made ${i}`)),
        answered<Data>((reply) => client.getData(`/p${i}`, undefined, reply)).then(
          () => void answers.push(`read ${i}`),
        ),
      ]).flat(),
    )
    await done
    expect(answers).toEqual(Array.from({ length: 200 }, (_, i) => [`made ${i}`, `read ${i}`]).flat())
  })

  test('a multi is done whole or not at all', async () => {
    const { client } = await open(server.port)
    const step = (path: string) => ({ op: 'create', path, data: EMPTY, acl: OPEN_ACL, mode: MODE.ephemeral }) as const
    const results = await answered<MultiResult[]>((reply) => client.multi([step('/m1'), step('/m2')], reply))
    expect(results).toMatchObject([{ path: '/m1' }, { path: '/m2' }])
    expect((await stat(client, '/m1'))!.czxid).toBe((await stat(client, '/m2'))!.czxid)
    const failing = answered<MultiResult[]>((reply) => client.multi([step('/m3'), step('/m1')], reply))
    await expect(failing).rejects.toMatchObject({ code: CODE.nodeExists })
    expect(await found<Stat>((reply) => client.exists('/m3', undefined, reply))).toBeUndefined()
  })
})

describe('requests that are sent together', () => {
  const creation = (path: string, reply: Creation['reply']): Creation => ({
    op: 'create',
    path,
    data: EMPTY,
    acl: OPEN_ACL,
    mode: MODE.ephemeralSequential,
    reply,
  })
  const createAll = (client: ZooKeeperClient, paths: readonly string[]) => {
    const creations: Creation[] = []
    const nodes = paths.map((path) =>
      answered<{ path: string; czxid: bigint }>((reply) => void creations.push(creation(path, reply))),
    )
    createTogether(client, creations)
    return Promise.allSettled(nodes)
  }
  const deleteAll = (client: ZooKeeperClient, paths: readonly string[]) => {
    const deletions: Deletion[] = []
    const deleted = paths.map((path) =>
      answered<true>((reply) => void deletions.push({ op: 'delete', path, version: -1, reply })),
    )
    deleteTogether(client, deletions)
    return Promise.allSettled(deleted)
  }

  test('200 nodes: the number that each is said to have is its czxid, and few transactions were needed', async () => {
    const { client } = await open(server.port)
    const parents = Array.from({ length: 200 }, (_, i) => `/together-${i}`)
    await Promise.all(parents.map((path) => create(client, path, MODE.persistent)))
    const made = await createAll(
      client,
      parents.map((path) => `${path}/n-`),
    )
    const numbers = new Set<bigint>()
    for (const one of made) {
      if (one.status === 'rejected') throw one.reason
      expect((await stat(client, one.value.path))!.czxid).toBe(one.value.czxid)
      numbers.add(one.value.czxid)
    }
    expect(numbers.size).toBeLessThan(10)
    const deleted = await deleteAll(
      client,
      parents.map((path) => `${path}/n-0000000000`),
    )
    expect(deleted.every(({ status }) => status === 'fulfilled')).toBe(true)
    for (const path of parents) expect((await stat(client, path))!.numChildren).toBe(0)
  })

  test('where one of them is refused, it alone is', async () => {
    const { client } = await open(server.port)
    await Promise.all(['/t-a', '/t-b', '/t-c'].map((path) => create(client, path, MODE.persistent)))
    const made = await createAll(client, ['/t-a/n-', '/t-none/n-', '/t-b/n-'])
    expect(made).toMatchObject([
      { value: { path: '/t-a/n-0000000000' } },
      { reason: { code: CODE.noNode } },
      { value: { path: '/t-b/n-0000000000' } },
    ])
    for (const one of made) {
      if (one.status === 'fulfilled') expect((await stat(client, one.value.path))!.czxid).toBe(one.value.czxid)
    }
    const deleted = await deleteAll(client, ['/t-a/n-0000000000', '/t-c/n-0000000000', '/t-b/n-0000000000'])
    expect(deleted).toMatchObject([{ value: true }, { reason: { code: CODE.noNode } }, { value: true }])
  })

  test('an answer that is lost is lost for all of them, and nothing is asked for twice', async () => {
    const { client } = await open(proxy.port)
    const { client: observer } = await open(server.port)
    await Promise.all(['/l-a', '/l-b'].map((path) => create(observer, path, MODE.persistent)))
    proxy.replies.fault = 'drop'
    const creating = createAll(client, ['/l-a/n-', '/l-b/n-'])
    await vi.waitFor(async () => expect((await stat(observer, '/l-b'))!.numChildren).toBe(1), EVENTUALLY)
    proxy.cutNow()
    await proxy.heal()
    const lost = { reason: { code: CODE.connectionLoss, sent: true } }
    expect(await creating).toMatchObject([lost, lost])
    await vi.waitFor(() => answered<true>((reply) => client.sync(reply)), EVENTUALLY)
    for (const path of ['/l-a', '/l-b']) expect((await stat(observer, path))!.numChildren).toBe(1)
  })
})

describe('sessions', () => {
  test('a broken connection is made again: the same session, its nodes, and unanswered requests fail', async () => {
    const { client, log } = await open(proxy.port)
    const { id } = client.session
    await create(client, '/kept', MODE.ephemeral)
    proxy.replies.fault = 'drop'
    const unanswered = answered<true>((reply) => client.sync(reply))
    await sleep(50)
    proxy.cutNow()
    await expect(unanswered).rejects.toMatchObject({ code: CODE.connectionLoss, sent: true })
    await expect(answered<true>((reply) => client.sync(reply))).rejects.toMatchObject({ sent: false })
    await proxy.heal()
    await vi.waitFor(() => expect(log).toEqual(['new session', 'broken', 'back']), EVENTUALLY)
    expect(client.session.id).toBe(id)
    expect(await found<Stat>((reply) => client.exists('/kept', undefined, reply))).toBeDefined()
  })

  test('a server that falls silent is given up, long before the session ends', async () => {
    const { client, log } = await open(proxy.port)
    proxy.blackhole()
    const from = performance.now()
    await vi.waitFor(() => expect(log).toContain('broken'), EVENTUALLY)
    expect(performance.now() - from).toBeLessThan(client.session.timeoutMs)
    expect(client.session.provenUntil).toBeLessThanOrEqual(from + client.session.timeoutMs)
  })

  test('a session that the servers ended is reported once, and a new one is made', async () => {
    const { client, log } = await open(proxy.port)
    const { id } = client.session
    const gone: number[] = []
    await create(client, '/mine', MODE.ephemeral)
    await answered<Data>((reply) => client.getData('/mine', (event) => gone.push(event.type), reply))
    await proxy.refuse()
    await sleep(client.session.timeoutMs * 1.5)
    await proxy.heal()
    await vi.waitFor(() => expect(log).toEqual(['new session', 'broken', 'expired', 'new session']), EVENTUALLY)
    expect(client.session.id).not.toBe(id)
    expect(await found<Stat>((reply) => client.exists('/mine', undefined, reply))).toBeUndefined()
    expect(gone).toEqual([])
  })

  test('a stalled process reads its answers before it gives the server up', async () => {
    const { client, log } = await open(server.port)
    const answer = answered<true>((reply) => client.sync(reply))
    const until = performance.now() + client.session.timeoutMs * 0.6
    while (performance.now() < until);
    await answer
    await sleep(300)
    expect(log).toEqual(['new session'])
  })
})

describe('watches', () => {
  test('fire once, tell what happened, and leave nothing where there is no node', async () => {
    const { client } = await open(server.port)
    const other = await open(server.port)
    const events: number[] = []
    await create(other.client, '/w', MODE.ephemeral)
    await answered<Data>((reply) => client.getData('/w', ({ type }) => events.push(type), reply))
    await found<Data>((reply) => client.getData('/no', ({ type }) => events.push(type), reply))
    expect(client.session.watches.size).toBe(1)
    await answered<true>((reply) => other.client.delete('/w', reply))
    await create(other.client, '/no', MODE.ephemeral)
    await vi.waitFor(() => expect(events).toEqual([EVENT.deleted]), EVENTUALLY)
    expect(client.session.watches.size).toBe(0)
  })

  test('20,000 of them, in more than one packet, are set again after a break, and tell what happened meanwhile', async () => {
    const { client, log } = await open(proxy.port, { timeoutMs: 30_000 })
    const other = await open(server.port, { timeoutMs: 30_000 })
    const path = (i: number) =>
      `/watched-with-a-name-that-makes-the-list-of-all-of-them-longer-than-a-packet-may-be-${i}`
    await Promise.all(Array.from({ length: 50 }, (_, i) => create(other.client, path(i), MODE.ephemeral)))
    const events: string[] = []
    const watch = (i: number) =>
      found<Stat>((reply) => client.exists(path(i), (event) => void events.push(event.path), reply))
    await Promise.all(Array.from({ length: 20_000 }, (_, i) => watch(i)))
    await proxy.refuse()
    await vi.waitFor(() => expect(log).toContain('broken'), EVENTUALLY)
    await Promise.all(
      Array.from({ length: 50 }, (_, i) => answered<true>((reply) => other.client.delete(path(i), reply))),
    )
    await create(other.client, path(19_999), MODE.ephemeral)
    await proxy.heal()
    await vi.waitFor(() => expect(events).toHaveLength(51), EVENTUALLY)
    expect(log).toEqual(['new session', 'broken', 'back'])
    expect(client.session.watches.size).toBe(19_949)
  })
})
