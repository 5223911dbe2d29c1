import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { connect } from '../../src/connect.js'
import type { Holdfast } from '../../src/core/holdfast.js'
import { type Proxy, type Server, startProxy, startRedis, TurnedClock } from '../servers/index.js'

/** Five servers, each behind a proxy, and what a minority or a majority of them can do. docs/backends/quorum.md has the table. */

let servers: Server[]
let proxies: Proxy[]
let url: string
/** Of the last server. */
const clock = new TurnedClock(0)
const clients: Holdfast[] = []

/** Longer than a loaded machine stands still, and short enough to wait for. */
const MAX_TTL_MS = 5_000
const COUNTS_AFTER_S = MAX_TTL_MS / 1_000 + 1
const HOUR_S = 3_600

beforeAll(async () => {
  servers = await Promise.all([0, 1, 2, 3, 4].map((at) => startRedis(at === 4 ? { clock } : {})))
  proxies = await Promise.all(servers.map((server) => startProxy(server)))
  url = urlOf(proxies)
})
afterAll(async () => {
  await Promise.all(proxies.map((proxy) => proxy.stop()))
  await Promise.all(servers.map((server) => server.stop()))
})
beforeEach(async () => {
  await Promise.all(servers.map((server) => upFor(server, COUNTS_AFTER_S)))
})
afterEach(async () => {
  for (const server of servers) if (server.pid !== 0) server.resume()
  await Promise.all(servers.map((server) => (server.pid === 0 ? server.start() : Promise.resolve())))
  await Promise.all(proxies.map((proxy) => proxy.heal()))
  await Promise.all(clients.splice(0).map((locks) => locks.close()))
})

// No answer of a healthy server is lost to a loaded machine: what would be a yes or no must not become an unknown.
function urlOf(ways: readonly Proxy[]): string {
  return `redlock://${ways.map(({ port }) => `127.0.0.1:${port}`).join(',')}?maxTtl=${MAX_TTL_MS}ms&nodeTimeout=1600ms`
}

async function client(ttl = MAX_TTL_MS): Promise<Holdfast> {
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

/** All five were up for long enough and have learnt each other's orders: from now on any three will do. */
async function allCount(): Promise<void> {
  await eventually('all five count', async () => {
    const counts = servers.map(async (server) => {
      const run = /run_id:(\w+)/.exec(String(await ask(server, 'INFO', 'server')))?.[1]
      return run !== undefined && (await ask(server, 'GET', 'holdfast:\0learnt')) === run
    })
    return (await Promise.all(counts)).every(Boolean)
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

const faults: Record<string, (at: number) => unknown> = {
  killed: (at) => servers[at]!.kill(),
  blackholed: (at) => proxies[at]!.blackhole(),
  'slow by three seconds': (at) => (proxies[at]!.replies.delayMs = 3_000),
  'stopped (SIGSTOP)': (at) => servers[at]!.pause(),
  wiped: (at) => ask(servers[at]!, 'FLUSHALL'),
}

describe('a minority', () => {
  for (const [what, fault] of Object.entries(faults)) {
    for (const [count, which] of [['one', [3]] as const, ['two', [0, 1]] as const]) {
      test(`${count} of five ${what}: holds stay held, others stay out, new ones are had, fences grow`, async () => {
        const [a, b] = [await client(), await client()]
        await allCount()
        const name = `${count} ${what}`
        const lease = await a.lock(name).acquire()
        // The last two answer when the majority has: one that others overtook there would have a bare majority.
        await eventually('all have it', async () => {
          const found = await Promise.all(servers.map((server) => ask(server, 'EXISTS', `holdfast:${name}`)))
          return found.every((count) => count === 1)
        })
        for (const at of which) await fault(at)
        expect(await b.lock(name).tryAcquire()).toBeUndefined()
        await lease.renew()
        expect(lease.state).toBe('held')
        const waiting = b.lock(name).acquire({ wait: '30s' })
        const other = await b.lock(`new ${name}`).acquire({ wait: '30s' })
        expect(other.fence > lease.fence).toBe(true)
        await other.release()
        await lease.release()
        const next = await waiting
        expect(next.fence > lease.fence && next.fence > other.fence).toBe(true)
        await next.release()
      })
    }
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
    const locks = await client(1_500)
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
    const locks = await connect(urlOf(own), { ttl: MAX_TTL_MS })
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
    await upFor(servers[2]!, COUNTS_AFTER_S)
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

  test('a new set of servers needs a majority, not all of them', async () => {
    const five = await Promise.all(Array.from({ length: 5 }, () => startRedis()))
    await five[4]!.kill()
    const locks = await connect(`redlock://${five.map(({ port }) => `127.0.0.1:${port}`).join(',')}?maxTtl=1s`, {
      ttl: '1s',
    })
    const lease = await locks.lock('first').acquire({ wait: '20s' })
    expect(await lease.release()).toBe(true)
    await locks.close()
    await Promise.all(five.map((server) => server.stop()))
  })

  test('all five restarted empty: nothing is given until no old lease can live, and the fence grows', async () => {
    const locks = await client()
    const lease = await locks.lock('all').acquire()
    await Promise.all(servers.map((server) => server.kill()))
    const restarted = performance.now()
    await Promise.all(servers.map((server) => server.start()))
    const next = await locks.lock('all').acquire({ wait: '30s' })
    expect(performance.now() - restarted).toBeGreaterThan(MAX_TTL_MS)
    expect(lease.signal.aborted).toBe(true)
    expect(next.fence > lease.fence).toBe(true)
    await next.release()
  })
})

describe('a clock', () => {
  afterEach(() => clock.turn(0))

  /** The fences that new clients get, one after the other, each cut off from some servers. */
  async function fencesWithout(...cuts: number[][]): Promise<bigint[]> {
    const fences: bigint[] = []
    for (const cut of cuts) {
      for (const at of cut) proxies[at]!.blackhole()
      const locks = await client()
      const lease = await locks.lock('turned').acquire({ wait: '30s' })
      fences.push(lease.fence)
      await lease.release()
      await Promise.all(proxies.map((proxy) => proxy.heal()))
      for (const at of cut) proxies[at]!.cutNow()
      await Promise.all(clients.splice(0).map((one) => one.close()))
    }
    return fences
  }

  function expectGrowing(fences: readonly bigint[]): void {
    for (const [i, fence] of fences.entries()) if (i > 0) expect(fence > fences[i - 1]!, `${i}`).toBe(true)
  }

  test('of one server steps an hour forward: its leases end, the holds do not', async () => {
    const [a, b] = [await client(), await client()]
    await allCount()
    const lease = await a.lock('stepped').acquire()
    await eventually('all have it', async () =>
      (await Promise.all(servers.map((s) => ask(s, 'EXISTS', 'holdfast:stepped')))).every((n) => n === 1),
    )
    clock.turn(HOUR_S)
    expect(await ask(servers[4]!, 'EXISTS', 'holdfast:stepped')).toBe(0)
    expect(await b.lock('stepped').tryAcquire()).toBeUndefined()
    await lease.renew()
    expect(lease.state).toBe('held')
    await lease.release()
    const next = await b.lock('stepped').acquire({ wait: '30s' })
    expect(next.fence > lease.fence).toBe(true)
    await next.release()
  })

  test('of one server an hour ahead, and then set right: everybody goes on, and fences grow over every majority', async () => {
    clock.turn(HOUR_S)
    await servers[4]!.kill()
    await servers[4]!.start()
    await upFor(servers[4]!, COUNTS_AFTER_S)
    const [seconds] = (await ask(servers[4]!, 'TIME')) as [string]
    expect(Number(seconds) - Date.now() / 1_000).toBeGreaterThan(HOUR_S - 60)
    await client()
    await allCount()
    const ahead = await fencesWithout([0], [4], [1], [4], [2], [3], [4, 0], [1, 2])
    // It was among the voters, and what it gave is what all give since.
    expect(ahead.at(-1)! / 1_000_000n > BigInt(seconds) - 60n).toBe(true)
    clock.turn(0)
    // By its clock it was started in the future, so it does not count for those who come now; four do.
    expectGrowing([...ahead, ...(await fencesWithout([], [4], [0], [4, 1], [2]))])
    await servers[4]!.kill()
  })
})
