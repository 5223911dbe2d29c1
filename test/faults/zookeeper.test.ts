import { randomUUID } from 'node:crypto'
import { connect as connectSocket, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { answered, ZooKeeperClient } from '../../src/backends/zookeeper/client/client.js'
import { zookeeper } from '../../src/backends/zookeeper/index.js'
import type { Backend, JoinRequest } from '../../src/core/backend.js'
import type { GroupLease } from '../../src/core/group-lease.js'
import { Holdfast } from '../../src/core/holdfast.js'
import type { Lease } from '../../src/core/lease.js'
import {
  type Ensemble,
  type Proxy,
  type Server,
  startProxy,
  startZookeeper,
  startZookeeperEnsemble,
} from '../servers/index.js'
import { acquireThrough, Contest } from './contest.js'

const SESSION_MS = 3_000
const EVENTUALLY = { timeout: 30_000, interval: 20 }
const clients: Holdfast[] = []

function connect(hosts: string, sessionMs = SESSION_MS): Holdfast {
  const backend = zookeeper({ hosts, session: sessionMs, tick: '200ms', path: '/faults' })
  const client = new Holdfast(backend, { ttl: sessionMs })
  clients.push(client)
  return client
}

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()))
})

/** What a server says of itself: 'leader', 'follower', or nothing while it serves nobody. */
async function mode(server: Server): Promise<string | undefined> {
  return await new Promise((resolve) => {
    const socket = connectSocket(server.port, '127.0.0.1')
    let text = ''
    socket.setTimeout(1_000, () => socket.destroy())
    socket.on('error', () => socket.destroy())
    socket.on('connect', () => socket.write('srvr'))
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    socket.on('close', () => resolve(/Mode: (\w+)/.exec(text)?.[1]))
  })
}

describe('an ensemble of three', () => {
  let ensemble: Ensemble
  let hosts: string

  beforeAll(async () => {
    ensemble = await startZookeeperEnsemble()
    hosts = ensemble.members.map(({ port }) => `127.0.0.1:${port}`).join(',')
  })
  afterAll(async () => {
    await ensemble.stop()
  })

  /** The servers by what they are now, once there is a leader and all serve. */
  async function roles(): Promise<{ leader: Server; followers: Server[] }> {
    return await vi.waitFor(async () => {
      const modes = await Promise.all(ensemble.members.map((member) => mode(member)))
      expect(modes).toContain('leader')
      expect(modes).not.toContain(undefined)
      return {
        leader: ensemble.members[modes.indexOf('leader')]!,
        followers: ensemble.members.filter((_, index) => modes[index] === 'follower'),
      }
    }, EVENTUALLY)
  }

  async function contestDuring(fault: () => Promise<void>): Promise<Contest> {
    const contest = new Contest([connect(hosts), connect(hosts), connect(hosts), connect(hosts)], randomUUID())
    try {
      await contest.everyoneServed(3)
      await fault()
      await contest.everyoneServed(5)
    } finally {
      await contest.stop()
    }
    expect(contest.violations).toEqual([])
    return contest
  }

  test('kill -9 and restart of a follower', async () => {
    await contestDuring(async () => {
      const { followers } = await roles()
      await followers[0]!.kill()
      await sleep(500)
      await followers[0]!.start()
    })
  })

  test('kill -9 and restart of the leader', async () => {
    await contestDuring(async () => {
      const { leader } = await roles()
      await leader.kill()
      await sleep(500)
      await leader.start()
    })
  })

  test('kill -9 of a majority for longer than a session, then its restart', async () => {
    const { leader, followers } = await roles()
    const [holder, waiter] = [connect(hosts), connect(hosts)]
    const held = await holder.lock('majority').acquire()
    const waiting = acquireThrough(waiter, 'majority')
    await contestDuring(async () => {
      await Promise.all([leader.kill(), followers[0]!.kill()])
      await sleep(SESSION_MS * 1.5)
      // The signal came by the holder's own clock: no server was there to say so.
      expect(held.signal.aborted).toBe(true)
      await Promise.all([leader.start(), followers[0]!.start()])
    })
    // Sessions outlive the lack of a leader, so the node still stood: it was given back once a server could be told.
    const next = await waiting
    expect(next.fence).toBeGreaterThan(held.fence)
    await next.release()
  })

  test('SIGSTOP of the leader beyond the session time-out', async () => {
    await contestDuring(async () => {
      const { leader } = await roles()
      leader.pause()
      await sleep(SESSION_MS * 1.7)
      leader.resume()
    })
  })

  test('a server that is behind does not say that somebody holds who has left', async () => {
    const { leader, followers } = await roles()
    const one = connect(`127.0.0.1:${leader.port}`)
    const other = connect(`127.0.0.1:${followers[0]!.port}`)
    for (let i = 0; i < 600; i += 1) {
      const group = (i % 2 === 0 ? one : other).all(['behind', 'behind too'])
      const lease = await group.tryAcquire()
      expect(lease?.state).toBe('held')
      await lease?.release()
    }
  })

  test('a client that is cut off from its server goes on with another, in the same session', async () => {
    const { leader, followers } = await roles()
    const proxy = await startProxy(followers[0]!)
    const client = connect(`127.0.0.1:${proxy.port}`)
    const lease = await client.lock('moved').acquire()
    const both = connect(`127.0.0.1:${proxy.port},127.0.0.1:${leader.port}`, 6_000)
    const kept = await both.lock('kept').acquire()
    // A black hole: only silence tells.
    proxy.blackhole()
    await sleep(6_000)
    expect(kept.state).toBe('held')
    expect(lease.state).toBe('lost')
    await proxy.stop()
    expect(await kept.release()).toBe(true)
  })

  describe('a client that is cut off from all servers', () => {
    let proxies: Proxy[]
    let far: Holdfast
    let near: Holdfast

    async function setUp(): Promise<void> {
      proxies = await Promise.all(ensemble.members.map((member) => startProxy(member)))
      far = connect(proxies.map(({ port }) => `127.0.0.1:${port}`).join(','))
      near = connect(hosts)
    }
    const tearDown = (): Promise<unknown> => Promise.all(proxies.map((proxy) => proxy.stop()))

    test('while holding: its signal comes before another holds', async () => {
      await setUp()
      const held = await far.lock('cut off').acquire()
      const waiting = near.lock('cut off').acquire()
      for (const proxy of proxies) proxy.blackhole()
      const next = await waiting
      expect(held.state).toBe('lost')
      expect(held.signal.aborted).toBe(true)
      expect(next.fence).toBeGreaterThan(held.fence)
      await Promise.all(proxies.map((proxy) => proxy.heal()))
      await next.release()
      // The old session is over; a new one serves the same client.
      await (await far.lock('cut off').acquire({ wait: '20s' })).release()
      await tearDown()
    })

    test('while waiting: those behind it are served, and it stands in line again once it is back', async () => {
      await setUp()
      const held = await near.lock('waiting').acquire()
      const waiting = far.lock('waiting').acquire()
      await vi.waitFor(async () => expect((await near.view('waiting'))[0]!.tickets).toHaveLength(2), EVENTUALLY)
      const behind = near.lock('waiting').acquire()
      for (const proxy of proxies) proxy.blackhole()
      await vi.waitFor(async () => expect((await near.view('waiting'))[0]!.tickets).toHaveLength(2), EVENTUALLY)
      await held.release()
      await (await behind).release()
      await Promise.all(proxies.map((proxy) => proxy.heal()))
      await (await waiting).release()
      await tearDown()
    })

    test('refused and cut again and again (a flapping connection): never two, everyone served', async () => {
      await setUp()
      const contest = new Contest([far, near, connect(hosts)], 'flapping')
      for (let i = 0; i < 30; i += 1) {
        for (const proxy of proxies) proxy.cutNow()
        await sleep(40 + Math.random() * 120)
      }
      await contest.everyoneServed(5)
      await contest.stop()
      expect(contest.violations).toEqual([])
      await tearDown()
    })
  })
})

describe('one server', () => {
  let server: Server

  beforeAll(async () => {
    server = await startZookeeper()
  })
  afterAll(async () => {
    await server.stop()
  })

  const request = (name: string, id: string): JoinRequest => ({
    line: { kind: 'mutex', name },
    id,
    weight: 1,
    capacity: 1,
    wait: true,
    ttlMs: SESSION_MS,
    waitTtlMs: SESSION_MS,
    holder: { owner: 'o', client: 'c', host: 'h', pid: 1 },
    takeover: false,
  })

  async function open(port: number, lost: (ids: readonly string[]) => void = () => {}): Promise<Backend> {
    const backend = zookeeper({ hosts: `127.0.0.1:${port}`, session: SESSION_MS, tick: '200ms', path: '/one' })
    await backend.open({ granted() {}, moved() {}, lost, unsure() {} })
    return backend
  }

  test('a creation whose answer was lost is found again by its id', async () => {
    const proxy = await startProxy(server)
    const backend = await open(proxy.port)
    const id = randomUUID()
    const observer = await open(server.port)
    proxy.replies.fault = 'drop'
    const first = backend.join([request('lost answer', id)])
    await vi.waitFor(async () => expect(await observer.view('lost answer')).toHaveLength(1), EVENTUALLY)
    proxy.cutNow()
    await proxy.heal()
    expect((await first)[0]).toMatchObject({ state: 'failed', error: { retryable: true } })
    const again = await backend.join([request('lost answer', id)])
    expect(again[0]).toMatchObject({ state: 'granted' })
    const [line] = await backend.view('lost answer')
    expect(line!.tickets.map((ticket) => ticket.id)).toEqual([id])
    await Promise.all([backend.close(), observer.close()])
    await proxy.stop()
  })

  test('a release that no server could be told of, and that was done when one could, is a release', async () => {
    const proxy = await startProxy(server)
    const [backend, observer] = [await open(proxy.port), await open(server.port)]
    const one = request('told late', randomUUID())
    const ref = { ...one, handle: one.id, keepMs: 0, tombstoneMs: 0 }
    expect((await backend.join([one]))[0]).toMatchObject({ state: 'granted' })
    await proxy.refuse()
    const [untold] = await backend.leave([ref]).catch((error: unknown) => [error])
    expect(untold).toMatchObject({ code: 'BACKEND', retryable: true })
    await proxy.heal()
    await vi.waitFor(async () => expect(await observer.view('told late')).toHaveLength(0), EVENTUALLY)
    // Core asks again.
    expect(await vi.waitFor(() => backend.leave([ref]), EVENTUALLY)).toEqual([true])
    await Promise.all([backend.close(), observer.close()])
    await proxy.stop()
  })

  test('what a failed try left behind is not taken for another that holds', async () => {
    const near = connect(`127.0.0.1:${server.port}`)
    const wishes: ((locks: Holdfast) => { tryAcquire(): Promise<Lease | GroupLease | undefined> })[] = [
      (locks: Holdfast) => locks.lock('left behind'),
      (locks: Holdfast) => locks.all(['left behind', 'left behind too']),
      (locks: Holdfast) => locks.readWriteLock('left behind').write,
      (locks: Holdfast) => locks.semaphore('left behind', 1),
    ]
    for (const wish of wishes) {
      const proxy = await startProxy(server)
      const far = connect(`127.0.0.1:${proxy.port}`)
      await far.ready()
      void proxy.next('requests', '_c_').then(() => (proxy.replies.fault = 'drop'))
      const failed = expect(wish(far).tryAcquire()).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
      await vi.waitFor(async () => expect(await near.view('left behind')).toHaveLength(1), EVENTUALLY)
      await failed
      await proxy.heal()
      const lease = await vi.waitFor(() => wish(far).tryAcquire(), EVENTUALLY)
      expect(lease?.state).toBe('held')
      await lease?.release()
      await far.close()
      await proxy.stop()
    }
  })

  test('a group whose tickets were answered but not seen in their lines is granted when it is asked for again', async () => {
    const proxy = await startProxy(server)
    const backend = await open(proxy.port)
    const ids = [randomUUID(), randomUUID()]
    const group = ids.map((id, index) => ({ ...request(`group-${index}`, id), wait: false, group: 'both' }))
    const answer = new Promise<void>((resolve) => {
      let over = false
      proxy.replies.rewrite = (chunk) => {
        if (over) return Buffer.alloc(0)
        const end = endOfFrame(chunk, ids)
        over = end > 0
        if (over) resolve()
        return over ? chunk.subarray(0, end) : chunk
      }
    })
    const first = backend.join(group)
    await answer
    // It lies in the client's socket, which is read before any timer is due.
    await sleep(1)
    proxy.cutNow()
    await proxy.heal()
    for (const standing of await first) expect(standing).toMatchObject({ state: 'failed', error: { retryable: true } })
    // Until the session is there again, the answer is unknown, and asked for once more.
    let standings = await backend.join(group)
    for (let i = 0; i < 50 && standings.some(({ state }) => state === 'failed'); i += 1) {
      await sleep(50)
      standings = await backend.join(group)
    }
    for (const standing of standings) expect(standing).toMatchObject({ state: 'granted' })
    await backend.close()
    await proxy.stop()
  })

  test.each(['alone', 'in a group'])(
    'a try (%s) that could not be taken back, and is granted when asked for again, is told of its eviction',
    async (how) => {
      const proxy = await startProxy(server)
      const lost: string[] = []
      const backend = await open(proxy.port, (ids) => lost.push(...ids))
      const other = await open(server.port)
      const name = `taken back ${how}`
      const leave = (one: JoinRequest) => ({ ...one, handle: one.id, keepMs: 0, tombstoneMs: 0 })
      // A line that is used again and again is not read before a try: so the other is found only once we stand behind it.
      for (let i = 0; i < 3; i += 1) {
        const mine = request(name, randomUUID())
        expect((await backend.join([mine]))[0]).toMatchObject({ state: 'granted' })
        expect(await backend.leave([leave(mine)])).toEqual([true])
      }
      const theirs = request(name, randomUUID())
      expect((await other.join([theirs]))[0]).toMatchObject({ state: 'granted' })
      const id = randomUUID()
      const tried: JoinRequest = { ...request(name, id), wait: false, ...(how === 'alone' ? {} : { group: 'g' }) }
      let refusing: Promise<void> | undefined
      proxy.requests.rewrite = (chunk) => {
        // Only what takes it back bears the number of its node.
        if (!chunk.includes(`_c_${id}-lock-0`)) return chunk
        refusing ??= proxy.refuse()
        return Buffer.alloc(0)
      }
      expect((await backend.join([tried]))[0]).toMatchObject({ state: 'failed', error: { retryable: true } })
      await refusing
      expect(await other.leave([leave(theirs)])).toEqual([true])
      await proxy.heal()
      const seen = async (): Promise<unknown> => (await backend.renew([{ ...tried, handle: id }]))[0]
      await vi.waitFor(async () => expect(await seen()).toMatchObject({ state: 'granted' }), EVENTUALLY)
      expect((await backend.join([tried]))[0]).toMatchObject({ state: 'granted' })
      expect(await other.leave([{ line: tried.line, id, keepMs: 0, tombstoneMs: 0 }])).toEqual([true])
      await vi.waitFor(() => expect(lost).toEqual([id]), EVENTUALLY)
      await Promise.all([backend.close(), other.close()])
      await proxy.stop()
    },
  )

  test('a creation that is still on its way when the session has come back comes too late', async () => {
    const late = await startLateProxy(server.port)
    const backend = await open(late.port)
    const observer = await open(server.port)
    const id = randomUUID()
    late.hold()
    const joining = backend.join([request('zombie', id)])
    await late.held(id)
    late.cutClients()
    expect((await joining)[0]).toMatchObject({ state: 'failed' })
    const ref = { line: request('zombie', id).line, id, handle: id, keepMs: 0, tombstoneMs: 60_000 }
    expect(await backend.leave([ref])).toEqual([false])
    expect((await backend.join([request('zombie', id)]))[0]).toEqual({ state: 'gone' })
    // Only now do the bytes of the first connection reach the server: it has closed that connection.
    late.release()
    for (let i = 0; i < 20; i += 1) {
      expect(await observer.view('zombie')).toHaveLength(0)
      await sleep(20)
    }
    await backend.close()
    await observer.close()
    await late.stop()
  })

  test('a parent that went and came between our leaving and our joining again is not taken for the old one', async () => {
    const late = await startLateProxy(server.port)
    const backend = await open(late.port)
    const other = await open(server.port)
    const [mine, again, theirs] = [randomUUID(), randomUUID(), randomUUID()]
    const leave = (id: string) => ({ ...request('reborn', id), handle: id, keepMs: 0, tombstoneMs: 0 })
    expect((await backend.join([request('reborn', mine)]))[0]).toMatchObject({ state: 'granted' })
    // Our node goes, but its answer and our next creation are on their way while the others come.
    late.holdReplies()
    const leaving = backend.leave([leave(mine)])
    await vi.waitFor(async () => expect(await other.view('reborn')).toHaveLength(0), EVENTUALLY)
    late.hold()
    const joining = backend.join([request('reborn', again)])
    await late.held(again)
    const client = await openClient(server.port)
    await answered<true>((reply) => client.delete('/one/mutex/reborn', reply))
    // The same number as ours had: what comes next seems to come right behind us.
    expect((await other.join([request('reborn', theirs)]))[0]).toMatchObject({ state: 'granted' })
    late.release()
    expect(await leaving).toEqual([true])
    expect((await joining)[0]).toMatchObject({ state: 'waiting' })
    await client.session.close()
    await other.close()
    await backend.close()
    await late.stop()
  })

  test('a session that ends while creating: the node of the old session is not taken for ours', async () => {
    const proxy = await startProxy(server)
    const backend = await open(proxy.port)
    const id = randomUUID()
    proxy.replies.fault = 'drop'
    const first = backend.join([request('expired', id)])
    await sleep(200)
    await proxy.refuse()
    expect((await first)[0]).toMatchObject({ state: 'failed', error: { retryable: true } })
    await sleep(SESSION_MS * 1.3)
    await proxy.heal()
    const standing = await vi.waitFor(async () => {
      const [again] = await backend.join([request('expired', id)])
      expect(again).toMatchObject({ state: 'granted' })
      return again
    }, EVENTUALLY)
    const observer = await open(server.port)
    await vi.waitFor(async () => {
      const [line] = await observer.view('expired')
      expect(line!.tickets.map(({ order }) => order)).toEqual([(standing as { order: bigint }).order])
    }, EVENTUALLY)
    await backend.close()
    await observer.close()
    await proxy.stop()
  })

  test('kill -9 and restart of the only server: holds and places in line outlast it', async () => {
    const alone = await startZookeeper()
    const [a, b] = [connect(`127.0.0.1:${alone.port}`, 10_000), connect(`127.0.0.1:${alone.port}`, 10_000)]
    const held = await a.lock('restart').acquire()
    const waiting = b.lock('restart').acquire()
    await vi.waitFor(async () => expect((await a.view('restart'))[0]!.tickets).toHaveLength(2), EVENTUALLY)
    await alone.kill()
    await vi.waitFor(() => expect(held.state).toBe('uncertain'), EVENTUALLY)
    await alone.start()
    await vi.waitFor(() => expect(held.state).toBe('held'), EVENTUALLY)
    await held.release()
    const next = await waiting
    expect(next.fence).toBeGreaterThan(held.fence)
    await next.release()
    await Promise.all(clients.splice(0).map((client) => client.close()))
    await alone.stop()
  })
})

/** Where the first packet that holds all these texts ends; 0: none does. */
function endOfFrame(chunk: Buffer, texts: readonly string[]): number {
  for (let at = 0; at + 4 <= chunk.length; ) {
    const end = at + 4 + chunk.readInt32BE(at)
    const frame = chunk.subarray(at, end)
    if (texts.every((text) => frame.includes(text))) return end
    at = end
  }
  return 0
}

interface LateProxy {
  readonly port: number
  /** From now on what clients send is kept back. */
  hold(): void
  /** From now on what the server answers is kept back. */
  holdReplies(): void
  /** Resolves when something kept back holds this text. */
  held(text: string): Promise<void>
  /** Breaks the connections of the clients; the server does not learn of it yet. */
  cutClients(): void
  /** Hands on what was kept back, though the client is long gone, as a slow network does. */
  release(): void
  stop(): Promise<void>
}

async function openClient(port: number): Promise<ZooKeeperClient> {
  return await new Promise((resolve) => {
    const client: ZooKeeperClient = new ZooKeeperClient(
      { hosts: [{ host: '127.0.0.1', port }], timeoutMs: 10_000, tickMs: 200 },
      { connected: () => resolve(client), disconnected: () => undefined, expired: () => undefined },
    )
    client.session.start()
  })
}

async function startLateProxy(target: number): Promise<LateProxy> {
  let holding = false
  let holdingReplies = false
  const kept: { chunk: Buffer; to: Socket }[] = []
  const sockets = new Set<Socket>()
  const down = new Set<Socket>()
  const server = createServer((client) => {
    const up = connectSocket(target, '127.0.0.1')
    // Of connections made later nothing is kept back: they are the new way.
    const slow = !holding
    down.add(client)
    for (const socket of [client, up]) {
      sockets.add(socket)
      socket.on('error', () => socket.destroy())
    }
    client.on('data', (chunk: Buffer) => (holding && slow ? void kept.push({ chunk, to: up }) : up.write(chunk)))
    up.on('data', (chunk: Buffer) => {
      if (holdingReplies) kept.push({ chunk, to: client })
      else if (client.writable) client.write(chunk)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as { port: number }).port,
    hold: () => (holding = true),
    holdReplies: () => (holdingReplies = true),
    held: (text) => vi.waitFor(() => expect(kept.some(({ chunk }) => chunk.includes(text))).toBe(true), EVENTUALLY),
    cutClients: () => {
      for (const socket of down) socket.destroy()
    },
    release: () => {
      holding = false
      holdingReplies = false
      for (const { chunk, to } of kept.splice(0)) to.write(chunk)
    },
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
