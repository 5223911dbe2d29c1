import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { connect } from '../../src/connect.js'
import type { Holdfast } from '../../src/core/holdfast.js'
import { type Proxy, type Server, startProxy, startRedis } from '../servers/index.js'

/** Five servers, each behind a proxy, and what a minority or a majority of them can do. docs/backends/quorum.md has the table. */

let servers: Server[]
let proxies: Proxy[]
let url: string
const clients: Holdfast[] = []

beforeAll(async () => {
  servers = await Promise.all(Array.from({ length: 5 }, () => startRedis()))
  proxies = await Promise.all(servers.map((server) => startProxy(server)))
  url = `redlock://${proxies.map(({ port }) => `127.0.0.1:${port}`).join(',')}?maxTtl=2s`
})
afterAll(async () => {
  await Promise.all(proxies.map((proxy) => proxy.stop()))
  await Promise.all(servers.map((server) => server.stop()))
})
beforeEach(async () => {
  await Promise.all(servers.map((server) => upFor(server, 3)))
})
afterEach(async () => {
  for (const server of servers) if (server.pid !== 0) server.resume()
  await Promise.all(servers.map((server) => (server.pid === 0 ? server.start() : Promise.resolve())))
  await Promise.all(proxies.map((proxy) => proxy.heal()))
  await Promise.all(clients.splice(0).map((locks) => locks.close()))
})

async function client(ttl: `${number}ms` = '2000ms'): Promise<Holdfast> {
  const locks = await connect(url, { ttl })
  clients.push(locks)
  return locks
}

async function ask(server: Server, ...command: string[]): Promise<unknown> {
  const redis = new Redis(server.url)
  try {
    return await redis.call(command[0]!, ...command.slice(1))
  } finally {
    redis.disconnect()
  }
}

/** Up for as long as a server must be before its word counts. */
async function upFor(server: Server, seconds: number): Promise<void> {
  await eventually('it has been up long enough', async () => {
    const info = String(await ask(server, 'INFO', 'server'))
    return Number(/uptime_in_seconds:(\d+)/.exec(info)?.[1]) >= seconds
  })
}

async function eventually(what: string, look: () => Promise<boolean> | boolean): Promise<void> {
  const end = performance.now() + 30_000
  while (!(await look())) {
    if (performance.now() > end) throw new Error(`not within 30 s: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener('abort', () => resolve())))

const killed = (at: number): Promise<void> => servers[at]!.kill()
const faults: Record<string, (at: number) => unknown> = {
  killed,
  blackholed: (at) => proxies[at]!.blackhole(),
  'slow by a second': (at) => (proxies[at]!.replies.delayMs = 1_000),
  'stopped (SIGSTOP)': (at) => servers[at]!.pause(),
  wiped: (at) => ask(servers[at]!, 'FLUSHALL'),
}

describe('a minority', () => {
  for (const [what, fault] of Object.entries(faults)) {
    test(`two of five ${what}: holds stay held, others stay out, new ones are had, fences grow`, async () => {
      const [a, b] = [await client(), await client()]
      const lease = await a.lock(`minority ${what}`).acquire()
      await fault(0)
      await fault(1)
      expect(await b.lock(`minority ${what}`).tryAcquire()).toBeUndefined()
      await lease.renew()
      expect(lease.state).toBe('held')
      const other = await b.lock(`new ${what}`).acquire({ wait: '20s' })
      expect(other.fence > lease.fence).toBe(true)
      await other.release()
      await lease.release()
      const next = await b.lock(`minority ${what}`).acquire({ wait: '20s' })
      expect(next.fence > lease.fence && next.fence > other.fence).toBe(true)
      await next.release()
    })
  }

  test('a server that lost a held ticket gets it again with the next renewal', async () => {
    const locks = await client()
    const lease = await locks.lock('repaired').acquire()
    await eventually('all have it', async () =>
      (await Promise.all(servers.map((s) => ask(s, 'EXISTS', 'holdfast:repaired')))).every((n) => n === 1),
    )
    await ask(servers[2]!, 'DEL', 'holdfast:repaired')
    await lease.renew()
    await eventually('it is back', async () => (await ask(servers[2]!, 'EXISTS', 'holdfast:repaired')) === 1)
    await lease.release()
    await eventually('it is gone everywhere', async () =>
      (await Promise.all(servers.map((s) => ask(s, 'EXISTS', 'holdfast:repaired')))).every((n) => n === 0),
    )
  })
})

describe('a majority', () => {
  test('three of five that are slow to answer at first are waited for', async () => {
    for (const proxy of proxies.slice(2)) proxy.replies.fault = 'hold'
    const asked = proxies.slice(2).map(async (proxy) => await proxy.next('replies'))
    const connecting = client()
    await Promise.all(asked)
    // Longer than one server is waited for where a majority is there without it.
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    await Promise.all(proxies.map((proxy) => proxy.heal()))
    const locks = await connecting
    expect(await locks.lock('slow-to-come').tryAcquire()).toBeDefined()
  })

  test('three of five gone: the holder stops at its deadline, nobody gets anything, each server’s answer is told', async () => {
    const locks = await client('1500ms')
    const lease = await locks.lock('majority').acquire()
    for (const at of [0, 1, 2]) proxies[at]!.blackhole()
    await aborted(lease.signal)
    expect(lease.state).toBe('lost')
    const error = await locks
      .lock('another')
      .tryAcquire()
      .catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'BACKEND', retryable: true })
    for (const { port } of proxies) expect((error as Error).message).toContain(`127.0.0.1:${port}`)
  })
})

describe('a restart', () => {
  /** A client with proxies of its own, so that it can be cut off from some servers while others are not. */
  async function ownClient(): Promise<{ locks: Holdfast; own: Proxy[] }> {
    const own = await Promise.all(servers.map((server) => startProxy(server)))
    const hosts = own.map(({ port }) => `127.0.0.1:${port}`).join(',')
    const locks = await connect(`redlock://${hosts}?maxTtl=2s`, { ttl: '2s' })
    clients.push(locks)
    return { locks, own }
  }

  test('{1,2,3} hold, 3 comes back empty: {3,4,5} cannot hold as well, and the fence grows after', async () => {
    const [one, two] = [await ownClient(), await ownClient()]
    for (const at of [3, 4]) one.own[at]!.blackhole()
    const first = await one.locks.lock('three').acquire({ wait: '20s' })
    await servers[2]!.kill()
    await servers[2]!.start()
    for (const at of [0, 1]) two.own[at]!.blackhole()
    // 3 is empty and says yes, 4 and 5 never heard of it: three of five, and still no.
    const taken = await two.locks
      .lock('three')
      .tryAcquire()
      .catch(() => undefined)
    expect(taken).toBeUndefined()
    // Even when 3 has been up for long enough, it has to learn the orders of three others first, and reaches two.
    await upFor(servers[2]!, 3)
    expect(
      await two.locks
        .lock('three')
        .tryAcquire()
        .catch(() => undefined),
    ).toBeUndefined()
    await aborted(first.signal)
    for (const proxy of [...one.own, ...two.own]) await proxy.heal()
    for (const at of [0, 1]) two.own[at]!.cutNow()
    const next = await two.locks.lock('three').acquire({ wait: '25s' })
    expect(next.fence > first.fence).toBe(true)
    await next.release()
    await Promise.all([...one.own, ...two.own].map((proxy) => proxy.stop()))
  })

  test('all five restarted empty: nothing is given until no old lease can live, and the fence grows', async () => {
    const locks = await client()
    const lease = await locks.lock('all').acquire()
    await Promise.all(servers.map((server) => server.kill()))
    const restarted = performance.now()
    await Promise.all(servers.map((server) => server.start()))
    const next = await locks.lock('all').acquire({ wait: '30s' })
    expect(performance.now() - restarted).toBeGreaterThan(2_000)
    expect(lease.signal.aborted).toBe(true)
    expect(next.fence > lease.fence).toBe(true)
    await next.release()
  })
})

describe('a clock', () => {
  test('of one server an hour ahead: everybody goes on, and fences grow over every majority', async () => {
    // What its clock an hour ahead makes of its orders. (Its own clock cannot be turned in a test: libfaketime and
    // the allocator of redis-server do not start together.)
    const [seconds] = (await ask(servers[4]!, 'TIME')) as [string]
    await ask(servers[4]!, 'SET', 'holdfast:\0last', String(BigInt(Number(seconds) + 3_600) * 1_000_000n))
    const fences: bigint[] = []
    for (const cut of [[0], [4], [1], [4], [2], [3], [4, 0], [1, 2]]) {
      const locks = await client()
      for (const at of cut) proxies[at]!.blackhole()
      const lease = await locks.lock('ahead').acquire({ wait: '20s' })
      fences.push(lease.fence)
      await lease.release()
      await Promise.all(proxies.map((proxy) => proxy.heal()))
      for (const at of cut) proxies[at]!.cutNow()
      await Promise.all(clients.splice(0).map((one) => one.close()))
    }
    for (const [i, fence] of fences.entries()) if (i > 0) expect(fence > fences[i - 1]!, `${i}`).toBe(true)
  })
})
