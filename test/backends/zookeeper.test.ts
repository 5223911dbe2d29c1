import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  answered,
  type Created,
  type Data,
  found,
  ZooKeeperClient,
} from '../../src/backends/zookeeper/client/client.js'
import { MODE, OPEN_ACL, type Stat } from '../../src/backends/zookeeper/client/protocol.js'
import { zookeeper, type ZooKeeperOptions } from '../../src/backends/zookeeper/index.js'
import { bySeq, decodeSegment, encodeSegment, nodePrefix, parseNode } from '../../src/backends/zookeeper/names.js'
import { openBackend } from '../../src/connect.js'
import type { Backend, BackendEvents, JoinRequest } from '../../src/core/backend.js'
import { ConfigError } from '../../src/core/errors.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { type Kind, RW_CAPACITY } from '../../src/core/line.js'
import { type Server, startProxy, startZookeeper } from '../servers/index.js'
import { describeBackend } from '../suite.js'

const EVENTUALLY = { timeout: 20_000, interval: 20 }
const { guarantees } = zookeeper({ hosts: 'localhost', session: '3s' })

describeBackend('zookeeper', guarantees, async () => {
  const server = await startZookeeper()
  return { url: `${server.url}/conformance?session=3s&tick=200ms`, stop: () => server.stop() }
})

let server: Server
let raw: ZooKeeperClient
const backends: Backend[] = []
const clients: Holdfast[] = []

beforeAll(async () => {
  server = await startZookeeper()
  raw = await openRaw(server.port)
})

afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()))
  await Promise.all(backends.map((backend) => backend.close()))
  await raw.session.close()
  await server.stop()
})

async function openRaw(port: number): Promise<ZooKeeperClient> {
  return await new Promise((resolve) => {
    const client: ZooKeeperClient = new ZooKeeperClient(
      { hosts: [{ host: '127.0.0.1', port }], timeoutMs: 10_000, tickMs: 200 },
      { connected: () => resolve(client), disconnected: () => undefined, expired: () => undefined },
    )
    client.session.start()
  })
}

const SILENT: BackendEvents = { granted() {}, moved() {}, lost() {}, unsure() {} }

function make(options: Partial<ZooKeeperOptions> = {}): Backend {
  return zookeeper({ hosts: `127.0.0.1:${server.port}`, session: '3s', tick: '200ms', path: '/test', ...options })
}

async function open(options: Partial<ZooKeeperOptions> = {}, events: Partial<BackendEvents> = {}): Promise<Backend> {
  const backend = make(options)
  await backend.open({ ...SILENT, ...events })
  backends.push(backend)
  return backend
}

function connect(options: Partial<ZooKeeperOptions> = {}): Holdfast {
  const client = new Holdfast(make(options))
  clients.push(client)
  return client
}

function request(kind: Kind, name: string, id: string, change: Partial<JoinRequest> = {}): JoinRequest {
  const holder = { owner: 'me', client: 'c', host: 'h', pid: 1 }
  const capacity = kind === 'rw' ? RW_CAPACITY : 1
  const lease = { ttlMs: 3_000, waitTtlMs: 3_000, takeover: false, wait: true }
  return { line: { kind, name }, id, weight: capacity, capacity, holder, ...lease, ...change }
}

const children = (path: string): Promise<string[] | undefined> =>
  found<string[]>((reply) => raw.getChildren(path, undefined, reply))
const create = (path: string): Promise<Created> =>
  answered<Created>((reply) => raw.create(path, Buffer.from('10.0.0.7'), OPEN_ACL, MODE.ephemeralSequential, reply))
const remove = (path: string): Promise<true> => answered<true>((reply) => raw.delete(path, reply))

/** What the server was asked so far. */
async function received(): Promise<number> {
  const { connect: connectSocket } = await import('node:net')
  return await new Promise((resolve) => {
    const socket = connectSocket(server.port, '127.0.0.1').end('srvr')
    let text = ''
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    socket.on('close', () => resolve(Number(/Received: (\d+)/.exec(text)?.[1])))
  })
}

describe('names of nodes', () => {
  test.each(['a', '.', '..', 'a/b', '/', '%', '%2F', 'a b', 'ü€😀', '\n', 'invoice:42', '\u007f\u0085', '..%2E'])(
    'a line named %j is one segment, and comes back',
    (name) => {
      const segment = encodeSegment(name)
      expect(segment).toMatch(/^[!-~]+$/)
      expect(segment).not.toMatch(/\/|^\.{1,2}$/)
      expect(decodeSegment(segment)).toBe(name)
    },
  )

  test("Curator's and kazoo's nodes are read as what they are", () => {
    const uuid = randomUUID()
    const weight = (kind: Kind, name: string) => parseNode(kind, name)?.weight
    expect(parseNode('mutex', `_c_${uuid}-lock-0000000012`)).toMatchObject({
      id: uuid,
      seq: 12,
      weight: 1,
      capacity: 1,
    })
    expect(weight('mutex', 'lock-0000000003')).toBe(1)
    expect(weight('mutex', '4f8e__lock__0000000003')).toBe(1)
    expect(weight('mutex', `_c_${uuid}-__READ__0000000003`)).toBe(1)
    expect(weight('rw', `_c_${uuid}-__READ__0000000003`)).toBe(1)
    expect(weight('rw', `_c_${uuid}-__WRIT__0000000003`)).toBe(RW_CAPACITY)
    expect(weight('rw', 'ab__rlock__0000000003')).toBe(1)
    expect(weight('rw', 'ab__lock__0000000003')).toBe(RW_CAPACITY)
    expect(parseNode('semaphore', `_c_${uuid}-permits-2-5-0000000003`)).toMatchObject({ weight: 2, capacity: 5 })
    expect(parseNode('mutex', 'leases')).toBeUndefined()
    expect(nodePrefix('mutex', uuid, 1, 1)).toBe(`_c_${uuid}-lock-`)
  })

  test('the order is right where the number wraps', () => {
    const nodes = ['lock--2147483648', 'lock-2147483647', 'lock--2147483647', 'lock-2147483646']
    const sorted = nodes.map((name) => parseNode('mutex', name)!).sort(bySeq)
    expect(sorted.map(({ seq }) => seq)).toEqual([2147483646, 2147483647, -2147483648, -2147483647])
  })
})

describe('the line on the servers', () => {
  test('the fence is the czxid of the node, and each kind has its own path', async () => {
    const locks = connect()
    const lease = await locks.lock('where').acquire()
    const [node] = (await children('/test/mutex/where'))!
    const stat = await answered<Stat>((reply) => raw.exists(`/test/mutex/where/${node}`, undefined, reply))
    expect(lease.fence).toBe(stat.czxid)
    await using read = await locks.readWriteLock('where').read.acquire()
    await using permit = await locks.semaphore('where', 3).acquire({ permits: 2 })
    expect(read.state).toBe('held')
    expect(permit.state).toBe('held')
    expect((await children('/test/rw/where'))![0]).toContain('__READ__')
    expect((await children('/test/semaphore/where'))![0]).toContain('-permits-2-3-')
    await lease.release()
  })

  test('tickets of many lines are created by one transaction, and each has its own czxid as its order', async () => {
    const backend = await open()
    const requests = Array.from({ length: 50 }, (_, i) => request('mutex', `together-${i}`, randomUUID()))
    const standings = await backend.join(requests)
    const orders = new Set<bigint>()
    for (const [index, standing] of standings.entries()) {
      const [node] = (await children(`/test/mutex/together-${index}`))!
      const path = `/test/mutex/together-${index}/${node}`
      const { czxid } = await answered<Stat>((reply) => raw.exists(path, undefined, reply))
      expect(standing).toMatchObject({ state: 'granted', order: czxid })
      orders.add(czxid)
    }
    expect(orders.size).toBe(1)
    const leave = (one: JoinRequest) => ({ ...one, handle: one.id, keepMs: 0, tombstoneMs: 0 })
    expect(await backend.leave(requests.map(leave))).toEqual(requests.map(() => true))
    for (const [index] of requests.entries()) {
      expect((await children(`/test/mutex/together-${index}`)) ?? []).toEqual([])
    }
  })

  test('one of many that was evicted, or whose parent is gone, is no harm to the others', async () => {
    const backend = await open()
    const names = ['bad-1', 'bad-2', 'bad-3', 'bad-2']
    const requests = names.map((name) => request('mutex', name, randomUUID()))
    const leave = (one: JoinRequest) => ({ ...one, handle: one.id, keepMs: 0, tombstoneMs: 0 })
    const first = await backend.join(requests)
    expect(first.map(({ state }) => state)).toEqual(['granted', 'granted', 'granted', 'waiting'])
    await remove(`/test/mutex/bad-1/${(await children('/test/mutex/bad-1'))![0]!}`)
    expect(await backend.leave(requests.map(leave))).toEqual([false, true, true, true])
    // The client believes that this parent is there.
    await remove('/test/mutex/bad-3')
    const again = requests.map((one) => ({ ...one, id: randomUUID() }))
    const second = await backend.join(again)
    expect(second.map(({ state }) => state)).toEqual(['granted', 'granted', 'granted', 'waiting'])
    expect(await children('/test/mutex/bad-1')).toHaveLength(1)
    expect(await children('/test/mutex/bad-2')).toHaveLength(2)
    expect(await children('/test/mutex/bad-3')).toHaveLength(1)
    expect(await backend.leave(again.map(leave))).toEqual([true, true, true, true])
  })

  test('an idle parent is removed, and the fence goes on growing when the numbers start again', async () => {
    const locks = connect()
    const first = await locks.lock('comes and goes').acquire()
    await first.release()
    await vi.waitFor(async () => expect(await children('/test/mutex/comes%20and%20goes')).toBeUndefined(), EVENTUALLY)
    const second = await locks.lock('comes and goes').acquire()
    expect((await children('/test/mutex/comes%20and%20goes'))![0]).toMatch(/0000000000$/)
    expect(second.fence).toBeGreaterThan(first.fence)
    await second.release()
  })

  test('a parent that somebody removes under our feet is made again', async () => {
    const backend = await open()
    const done = new AbortController()
    const remover = (async () => {
      while (!done.signal.aborted)
        await found<true>((reply) => raw.delete('/test/mutex/contested', reply)).catch(() => undefined)
    })()
    try {
      for (let i = 0; i < 200; i += 1) {
        const one = request('mutex', 'contested', randomUUID())
        expect((await backend.join([one]))[0]).toMatchObject({ state: 'granted' })
        expect(await backend.leave([{ ...one, handle: one.id, keepMs: 0, tombstoneMs: 0 }])).toEqual([true])
      }
    } finally {
      done.abort()
      await remover
    }
  })

  test('close removes the parents that this client left empty', async () => {
    const locks = new Holdfast(make())
    await (await locks.lock('gone at once').acquire()).release()
    await locks.close()
    expect(await children('/test/mutex/gone%20at%20once')).toBeUndefined()
  })

  test('a node that somebody deletes is a hold that is lost, by its watch', async () => {
    const locks = connect()
    const lease = await locks.lock('evicted').acquire()
    const [node] = (await children('/test/mutex/evicted'))!
    await remove(`/test/mutex/evicted/${node}`)
    await vi.waitFor(() => expect(lease.state).toBe('lost'), EVENTUALLY)
    expect(lease.signal.aborted).toBe(true)
  })

  test('a hold that its own client evicts is lost by its signal, and the next of the same client is served', async () => {
    const locks = connect()
    const lease = await locks.lock('own').acquire()
    const waiting = locks.lock('own').acquire({ wait: '20s' })
    await vi.waitFor(async () => expect(await children('/test/mutex/own')).toHaveLength(2), EVENTUALLY)
    const [line] = await locks.view('own')
    expect(await locks.evict(line!.tickets[0]!)).toBe(true)
    await using next = await waiting
    expect(lease.signal.aborted).toBe(true)
    expect(lease.state).toBe('lost')
    expect(await lease.release()).toBe(false)
    expect(next.state).toBe('held')
    expect(await locks.evict(line!.tickets[0]!)).toBe(false)
  })

  test('a hold beyond maxHold leaves the line although the session lives on', async () => {
    const [a, b] = [connect({ session: '2s' }), connect({ session: '2s' })]
    const hung = await a.lock('hung').acquire({ maxHold: 100 })
    await using next = await b.lock('hung').acquire({ wait: '20s' })
    expect(hung.state).toBe('lost')
    expect(next.state).toBe('held')
  })

  test('the owner and note of a ticket are in its data, and foreign nodes are shown as well as can be', async () => {
    const locks = connect()
    await using lease = await locks.lock('shown').acquire({ owner: 'ä', note: 'n' })
    expect(lease.owner).toBe('ä')
    const foreign = await create('/test/mutex/shown/_c_0d1e-lock-')
    const [line] = await locks.view('shown')
    expect(line!.tickets.map(({ owner, note }) => [owner, note])).toEqual([
      ['ä', 'n'],
      ['10.0.0.7', undefined],
    ])
    expect(line!.tickets[0]!.ageMs).toBeLessThan(60_000)
    expect(await locks.evict(line!.tickets[1]!)).toBe(true)
    await expect(remove(foreign.path)).rejects.toMatchObject({ code: -101 })
  })
})

describe('watches', () => {
  test('10,000 waiters, most of them on watches, are all woken', async () => {
    const held: string[] = []
    await children('/')
    const lines = Array.from({ length: 10_000 }, (_, i) => `many-${i}`)
    const parents = async (): Promise<void> => {
      await Promise.all(
        lines.map((name) =>
          answered<Created>((reply) =>
            raw.create(`/test/mutex/${name}`, Buffer.alloc(0), OPEN_ACL, MODE.persistent, reply),
          ),
        ),
      )
    }
    const granted = new Set<string>()
    const backend = await open({}, { granted: (id) => void granted.add(id) })
    await parents()
    held.push(...(await Promise.all(lines.map((name) => create(`/test/mutex/${name}/lock-`)))).map(({ path }) => path))
    const requests = lines.map((name) => request('mutex', name, randomUUID()))
    for (let i = 0; i < requests.length; i += 250) {
      const standings = await backend.join(requests.slice(i, i + 250))
      expect(standings.every(({ state }) => state === 'waiting')).toBe(true)
    }
    await Promise.all(held.map(remove))
    await vi.waitFor(() => expect(granted.size).toBe(10_000), { timeout: 30_000, interval: 50 })
    await backend.close()
  })

  test('a reader watches the last writer before it, a semaphore only as many as leave it no room', async () => {
    const granted: string[] = []
    const backend = await open({}, { granted: (id) => void granted.push(id) })
    const other = await open()
    const read = (id: string) => request('rw', 'guards', id, { weight: 1 })
    await other.join([read('r1'), request('rw', 'guards', 'w1'), read('r2')])
    expect((await backend.join([read('mine')]))[0]).toMatchObject({ state: 'waiting', ahead: 3 })
    const leave = (id: string) => other.leave([{ ...read(id), handle: id, keepMs: 0, tombstoneMs: 0 }])
    const before = await received()
    await leave('r2')
    await leave('r1')
    // Neither of them could change the answer: nobody but the one who left asked anything (and beats).
    expect((await received()) - before).toBeLessThan(8)
    expect(granted).toEqual([])
    await leave('w1')
    await vi.waitFor(() => expect(granted).toEqual(['mine']), EVENTUALLY)
  })

  test('a hand-off in a long line costs no more requests than in a short one', async () => {
    const cost = async (waiters: number): Promise<number> => {
      const granted: string[] = []
      const told = { granted: (id: string) => void granted.push(id) }
      const [a, b] = [await open({}, told), await open({}, told)]
      const one = (i: number) => request('mutex', `line-${waiters}`, `${waiters}-${i}`)
      const leave = (i: number) => (i % 2 ? b : a).leave([{ ...one(i), handle: one(i).id, keepMs: 0, tombstoneMs: 0 }])
      await a.join([one(0)])
      for (let i = 1; i < waiters; i += 1) await (i % 2 ? b : a).join([one(i)])
      const before = await received()
      for (let i = 0; i < 20; i += 1) {
        await leave(i)
        await vi.waitFor(() => expect(granted).toContain(one(i + 1).id), EVENTUALLY)
      }
      return ((await received()) - before) / 20
    }
    const [short, long] = [await cost(30), await cost(400)]
    expect(long).toBeLessThan(short * 1.5 + 1)
  })
})

describe('sharing a path with Curator', () => {
  test('names are paths below the base, and what cannot be one is refused', async () => {
    const locks = connect({ curator: '/shared/locks' })
    await using lease = await locks.lock('orders/42').acquire()
    expect(lease.state).toBe('held')
    expect(await children('/shared/locks/orders/42')).toHaveLength(1)
    await expect(locks.lock('a//b').acquire()).rejects.toMatchObject({ code: 'CONFIG' })
    await expect(locks.lock('../b').acquire()).rejects.toMatchObject({ code: 'CONFIG' })
    expect((await locks.view('orders/42'))[0]!.tickets).toHaveLength(1)
  })

  test('what only leads to a line is removed by the servers when it is empty', async () => {
    const quick = await startZookeeper({ args: ['-Dznode.container.checkIntervalMs=200'] })
    const observer = await openRaw(quick.port)
    const below = (path: string): Promise<string[] | undefined> =>
      found<string[]>((reply) => observer.getChildren(path, undefined, reply))
    const locks = connect({ hosts: `127.0.0.1:${quick.port}`, curator: '/leads/locks' })
    const lease = await locks.lock('tenant/orders/42').acquire()
    expect(await below('/leads/locks/tenant/orders')).toEqual(['42'])
    await lease.release()
    await vi.waitFor(async () => expect(await below('/leads/locks')).toEqual([]), EVENTUALLY)
    await (await locks.lock('tenant/orders/42').acquire()).release()
    await locks.close()
    await observer.session.close()
    await quick.stop()
  })

  test('what leads to a line is made again, however often it is removed', async () => {
    const backend = await open({ curator: '/leads/locks' })
    const done = new AbortController()
    const remover = removing(['tenant/orders/42', 'tenant/orders', 'tenant'], done.signal)
    try {
      for (let i = 0; i < 100; i += 1) {
        const one = request('mutex', 'tenant/orders/42', randomUUID())
        expect((await backend.join([one]))[0]).toMatchObject({ state: 'granted' })
        expect(await backend.leave([{ ...one, handle: one.id, keepMs: 0, tombstoneMs: 0 }])).toEqual([true])
      }
    } finally {
      done.abort()
      await remover
    }
  })

  /** Removes them wherever they are empty, as servers do, only far more often. */
  async function removing(paths: readonly string[], signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      for (const path of paths) await remove(`/leads/locks/${path}`).catch(() => undefined)
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 5))
    }
  }

  test.each(['_c_4f1d-lock-', 'lock-', '4f1d__lock__'])('a node %s… ahead of us is waited for', async (prefix) => {
    const locks = connect({ curator: '/shared' })
    await (await locks.lock(`with-${prefix}`).acquire()).release()
    const foreign = await create(`/shared/with-${prefix}/${prefix}`)
    expect(await locks.lock(`with-${prefix}`).tryAcquire()).toBeUndefined()
    const waiting = locks.lock(`with-${prefix}`).acquire({ wait: '20s' })
    await vi.waitFor(async () => expect(await children(`/shared/with-${prefix}`)).toHaveLength(2), EVENTUALLY)
    await remove(foreign.path)
    await (await waiting).release()
  })
})

describe('unfair: true', () => {
  test('one holds at a time, everyone gets it in the end, and fences grow', async () => {
    const locks = [connect({ unfair: true }), connect({ unfair: true }), connect({ unfair: true })]
    expect(locks[0]!.guarantees).toMatchObject({ order: 'none', kinds: ['mutex'] })
    let inside = 0
    const fences: bigint[] = []
    await Promise.all(
      Array.from({ length: 60 }, (_, i) =>
        locks[i % 3]!.lock('race').use(async (lease) => {
          inside += 1
          expect(inside).toBe(1)
          fences.push(lease.fence)
          await new Promise((resolve) => setTimeout(resolve, 1))
          inside -= 1
        }),
      ),
    )
    expect(fences).toHaveLength(60)
    expect(fences).toEqual(fences.toSorted((a, b) => (a < b ? -1 : 1)))
  })

  test('a try is refused, an eviction is noticed, and a late release frees nobody else', async () => {
    const [a, b] = [connect({ unfair: true }), connect({ unfair: true })]
    const first = await a.lock('plain').acquire()
    expect(await b.lock('plain').tryAcquire()).toBeUndefined()
    const waiting = b.lock('plain').acquire({ wait: '20s' })
    const [line] = await b.view('plain')
    expect(await b.evict(line!.tickets[0]!)).toBe(true)
    await using next = await waiting
    await vi.waitFor(() => expect(first.state).toBe('lost'), EVENTUALLY)
    expect(await first.release()).toBe(false)
    expect(next.state).toBe('held')
    expect((await a.view('plain'))[0]!.tickets[0]!.fence).toBe(next.fence)
  })
})

describe('opening', () => {
  test('the least ttl is the session, as asked for and then as the servers give it', async () => {
    const locks = connect({ session: '50ms' })
    expect(locks.guarantees.minTtlMs).toBe(50)
    await locks.ready()
    // Two ticks of the server.
    expect(locks.guarantees.minTtlMs).toBe(400)
    await expect(locks.lock('short').acquire({ require: { minTtlMs: 399 } })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
    })
  })

  test('a ttl below the session is taken, and the hold lasts as long as the session', async () => {
    const lease = await connect({ session: '8s' }).lock('short').acquire({ ttl: 100 })
    expect(lease.remainingMs).toBeGreaterThan(100)
    expect(lease.remainingMs).toBeLessThanOrEqual(8_000)
    await lease.release()
  })

  test('a host where nobody listens is an error at once', async () => {
    await expect(make({ hosts: '127.0.0.1:1' }).open(SILENT)).rejects.toMatchObject({ code: 'BACKEND' })
  })

  test('an open that failed can be tried again', async () => {
    const proxy = await startProxy(server)
    await proxy.refuse()
    const locks = connect({ hosts: `127.0.0.1:${proxy.port}` })
    await expect(locks.lock('later').acquire()).rejects.toMatchObject({ code: 'BACKEND' })
    await proxy.heal()
    await (await locks.lock('later').acquire()).release()
    await locks.close()
    await proxy.stop()
  })

  test('a server that is no ZooKeeper, or speaks TLS only on the other side, is an error in time', async () => {
    await expect(make({ tls: {}, session: '1s' }).open(SILENT)).rejects.toMatchObject({ code: 'BACKEND' })
  })

  test('digest authentication: another user may not touch the nodes of the first', async () => {
    const url = (user: string) => `zookeeper://${user}:secret@127.0.0.1:${server.port}/private?session=3s`
    const alice = await openBackend(url('alice'))
    await alice.open(SILENT)
    expect((await alice.join([request('mutex', 'x', randomUUID())]))[0]!.state).toBe('granted')
    const bob = await openBackend(url('bob'))
    const error: unknown = await bob.open(SILENT).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'BACKEND', retryable: false })
    expect(String(error)).toContain('NoAuth')
    expect(String(error)).not.toContain('secret')
    await alice.close()
  })

  test('what another user made and may not be read does not hide the rest, and is waited for', async () => {
    const locks = connect()
    await locks.ready()
    const alice = connect({ user: 'alice', password: 'secret' })
    await answered<Created>((reply) =>
      raw.create('/test/mutex/both', Buffer.alloc(0), OPEN_ACL, MODE.persistent, reply),
    )
    await using hers = await alice.lock('hers').acquire()
    const first = await alice.lock('both').acquire()
    const waiting = locks.lock('both').acquire({ wait: '20s' })
    await vi.waitFor(async () => expect(await children('/test/mutex/both')).toHaveLength(2), EVENTUALLY)
    expect(hers.state).toBe('held')
    const [line] = await locks.view('both')
    expect(line!.tickets[0]).toMatchObject({ fence: first.fence, host: '', pid: 0 })
    expect(line!.tickets).toHaveLength(2)
    const names: string[] = []
    for await (const { name } of locks.lines('')) names.push(name)
    expect(names).toContain('both')
    expect(names).not.toContain('hers')
    await first.release()
    await (await waiting).release()
  })

  test('the end of a node that may not be read wakes who waits for it, and it is nobody to take over from', async () => {
    // By itself a session as long as this looks again after many seconds.
    const locks = connect({ session: '60s' })
    await locks.ready()
    const alice = connect({ user: 'alice', password: 'secret' })
    await answered<Created>((reply) =>
      raw.create('/test/mutex/woken', Buffer.alloc(0), OPEN_ACL, MODE.persistent, reply),
    )
    const first = await alice.lock('woken').acquire({ owner: 'deploy' })
    const again = locks.lock('woken', { owner: 'deploy', takeover: true })
    expect(await again.tryAcquire()).toBeUndefined()
    const waiting = again.acquire({ wait: '10s' })
    await vi.waitFor(async () => expect(await children('/test/mutex/woken')).toHaveLength(2), EVENTUALLY)
    // One that leaves behind the first is told of too, and changes nothing.
    await expect(locks.lock('woken').acquire({ wait: 50 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' })
    await first.release()
    await (await waiting).release()
  })

  test('unfair: a node of another user is shown as it can be, and is waited for', async () => {
    const locks = connect({ unfair: true })
    await locks.ready()
    const hers = await connect({ unfair: true, user: 'alice', password: 'secret' })
      .lock('hers')
      .acquire({ owner: 'deploy' })
    expect((await locks.view('hers'))[0]!.tickets).toMatchObject([{ fence: hers.fence, host: '', pid: 0 }])
    const again = locks.lock('hers', { owner: 'deploy', takeover: true })
    expect(await again.tryAcquire()).toBeUndefined()
    const waiting = again.acquire({ wait: '20s' })
    expect(await locks.lock('hers').tryAcquire()).toBeUndefined()
    await hers.release()
    await (await waiting).release()
  })

  test('unknown parameters and impossible options are refused', async () => {
    const url = `zookeeper://127.0.0.1:${server.port}`
    const parameters = [
      '?sesion=3s',
      '?session=soon',
      '?session=700h',
      '?tick=0ms',
      '?acl=creator',
      '?ca=/x',
      '?tls=maybe',
    ]
    for (const bad of [...parameters, '/a//b', '/zookeeper', '/zookeeper/quota']) {
      await expect(openBackend(url + bad)).rejects.toMatchObject({ code: 'CONFIG' })
    }
    await expect(openBackend(`zookeeper://:secret@127.0.0.1:${server.port}`)).rejects.toMatchObject({ code: 'CONFIG' })
    const nowhere: ZooKeeperOptions['hosts'][] = [
      'h:0',
      'h:65536',
      [{ host: 'h', port: 0 }],
      [{ host: 'h', port: 1.5 }],
    ]
    for (const hosts of nowhere) expect(() => zookeeper({ hosts })).toThrow(ConfigError)
    expect(() => zookeeper({ hosts: 'h', password: 'secret' })).toThrow(ConfigError)
  })

  test('the longest session is taken, and a path that only begins as the one of the servers', async () => {
    const backend = await open({ session: 2 ** 31 - 1, path: '/zookeeper-locks' })
    expect((await backend.join([request('mutex', 'x', randomUUID())]))[0]!.state).toBe('granted')
  })

  test('a foreign data format is no obstacle', async () => {
    await open()
    const data = await answered<Data>((reply) => raw.getData('/test', undefined, reply))
    expect(data.data).toHaveLength(0)
  })
})
