import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { guarantees } from '../../src/backends/quorum/guarantees.js'
import { quorum } from '../../src/backends/quorum/index.js'
import { redis } from '../../src/backends/redis/index.js'
import { connect, openBackend } from '../../src/connect.js'
import type { FloorBackend, Standing } from '../../src/core/backend.js'
import { ConfigError } from '../../src/core/errors.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { type Server, startRedis } from '../servers/index.js'
import { describeBackend } from '../suite.js'

/** A server counts once it has been up for longer than the longest ttl; the suite's clients ask for up to 30 s. */
const MAX_TTL_S = 30

async function startFive(): Promise<{ servers: Server[]; hosts: string; stop: () => Promise<void> }> {
  const servers = await Promise.all(Array.from({ length: 5 }, () => startRedis()))
  const stop = async (): Promise<void> => void (await Promise.all(servers.map((server) => server.stop())))
  return { servers, hosts: servers.map(({ port }) => `127.0.0.1:${port}`).join(','), stop }
}

async function untilUp(server: Server, seconds: number): Promise<void> {
  const client = new Redis(server.url)
  for (;;) {
    const up = Number(/uptime_in_seconds:(\d+)/.exec(await client.info('server'))?.[1])
    if (up > seconds) break
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  client.disconnect()
}

describeBackend('quorum', guarantees(MAX_TTL_S * 1_000, 10), async () => {
  const { servers, hosts, stop } = await startFive()
  await Promise.all(servers.map((server) => untilUp(server, MAX_TTL_S)))
  return { url: `redlock://${hosts}?maxTtl=${MAX_TTL_S}s`, stop }
})

describe('quorum, alone', () => {
  let five: Awaited<ReturnType<typeof startFive>>
  let url: string
  const clients: Holdfast[] = []
  const client = async (): Promise<Holdfast> => {
    const locks = await connect(url, { ttl: '1s' })
    clients.push(locks)
    return locks
  }
  beforeAll(async () => {
    five = await startFive()
    url = `redlock://${five.hosts}?maxTtl=1s`
    await Promise.all(five.servers.map((server) => untilUp(server, 1)))
  })
  afterAll(async () => {
    await Promise.all(clients.map((locks) => locks.close()))
    await five.stop()
  })

  test('a client that found no majority at first goes on when there is one', async () => {
    const three = await Promise.all(Array.from({ length: 3 }, () => startRedis()))
    await Promise.all(three.slice(1).map((server) => server.kill()))
    const hosts = three.map(({ port }) => `127.0.0.1:${port}`).join(',')
    const locks = new Holdfast(await openBackend(`redlock://${hosts}?maxTtl=1s`), { ttl: '1s' })
    clients.push(locks)
    await expect(locks.lock('late').acquire({ wait: '1s' })).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
    await Promise.all(three.slice(1).map((server) => server.start()))
    // They were just started, and count a little later: somebody has to look then.
    const lease = await locks.lock('late').acquire({ wait: '20s' })
    expect(await lease.release()).toBe(true)
    await locks.close()
    await Promise.all(three.map((server) => server.stop()))
  })

  test('a semaphore, a ttl or minHold that is too long and a quorum of two are refused with the reason', async () => {
    const locks = await client()
    expect(() => locks.semaphore('s', 2)).toThrow(/no semaphore/)
    await expect(locks.lock('long').acquire({ ttl: '2s' })).rejects.toMatchObject({
      code: expect.stringMatching(/UNSUPPORTED|CONFIG/),
    })
    await expect(locks.lock('long').acquire({ minHold: '2s' })).rejects.toMatchObject({
      code: 'CONFIG',
      message: expect.stringMatching(/minHold: 2000 ms .* 1000 ms at most/),
    })
    await expect(connect('redlock://a,b')).rejects.toMatchObject({ code: 'CONFIG' })
    for (const hosts of ['a,a,b', 'a,b,A:6379']) {
      await expect(connect(`redlock://${hosts}`)).rejects.toMatchObject({
        code: 'CONFIG',
        message: expect.stringContaining('a:6379 is there twice'),
      })
    }
    await expect(connect(`redlock://${five.hosts}?replicas=1`)).rejects.toMatchObject({ code: 'CONFIG' })
  })

  test('a time-out for one server that is none, or of which three do not fit into a call, is refused', async () => {
    const backends = (): FloorBackend[] => [1, 2, 3].map((port) => redis(new Redis({ port, lazyConnect: true })))
    for (const nodeTimeoutMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1_601, '500' as unknown as number]) {
      expect(() => quorum(backends(), { nodeTimeoutMs }), String(nodeTimeoutMs)).toThrow(ConfigError)
    }
    expect(quorum(backends(), { nodeTimeoutMs: 1_600 }).name).toBe('quorum')
    for (const nodeTimeout of ['0', '0ms', '2s', 'soon']) {
      await expect(connect(`redlock://${five.hosts}?nodeTimeout=${nodeTimeout}`)).rejects.toMatchObject({
        code: 'CONFIG',
      })
    }
  })

  test('an id that is asked for while its try is under way gets the answer of that try', async () => {
    const backend = await openBackend(url)
    const nobody = { granted: () => undefined, moved: () => undefined, lost: () => undefined, unsure: () => undefined }
    await backend.open(nobody)
    const line = { kind: 'mutex', name: 'twice' } as const
    const holder = { owner: 'o', client: 'c', host: 'h', pid: 1 }
    const wish = { line, id: 'one', weight: 1, capacity: 1, wait: false, ttlMs: 1_000, waitTtlMs: 1_000, holder }
    const request = { ...wish, takeover: false }
    const [[first], [second]] = (await Promise.all([backend.join([request]), backend.join([request])])) as [
      [Standing],
      [Standing],
    ]
    if (first.state !== 'granted' || second.state !== 'granted') throw new Error(`${first.state}, ${second.state}`)
    expect(second.order).toBe(first.order)
    // Counted from when the first was sent, so no more than is left of it.
    expect(second.ttlMs).toBeLessThanOrEqual(first.ttlMs)
    expect(await backend.leave([{ line, id: 'one', handle: 'one', keepMs: 0, tombstoneMs: 0 }])).toEqual([true])
    await backend.close()
  })

  test('a server that was just started does not count, and says so', async () => {
    const locks = await connect(`redlock://${five.hosts}?maxTtl=1h&nodeTimeout=1600ms`)
    clients.push(locks)
    const early = locks.lock('early').tryAcquire()
    await expect(early).rejects.toMatchObject({ code: 'BACKEND' })
    const { message } = (await early.catch((error: unknown) => error)) as Error
    // Three are enough to know: the others were not too slow.
    const words = message.slice(message.indexOf('127.0.0.1')).split(' · ')
    expect(words).toHaveLength(5)
    for (const word of words) expect(word).toMatch(/started \d+ s ago and counts only after 3601 s|not waited for/)
    expect(words.filter((word) => word.includes('started')).length).toBeGreaterThanOrEqual(3)
  })

  test('writers and readers exclude each other, readers share', async () => {
    const [a, b] = [await client(), await client()]
    const read = await a.readWriteLock('rw').read.acquire()
    const other = await b.readWriteLock('rw').read.acquire()
    expect(await b.readWriteLock('rw').write.tryAcquire()).toBeUndefined()
    await read.release()
    await other.release()
    const write = await b.readWriteLock('rw').write.acquire()
    expect(await a.readWriteLock('rw').read.tryAcquire()).toBeUndefined()
    expect(write.fence > other.fence).toBe(true)
    await write.release()
  })

  test('all servers have the same order after an acquire, although their clocks and histories differ', async () => {
    const [seconds] = await new Redis(five.servers[0]!.url).time()
    const ahead = BigInt(Number(seconds) + 3_600) * 1_000_000n
    const locks = await client()
    const first = await locks.lock('agree').acquire()
    await first.release()
    // One that is an hour ahead: what its clock being so, or having been so, makes of its orders.
    const one = new Redis(five.servers[4]!.url)
    await one.set('holdfast:\0last', String(ahead))
    const fences = [first.fence]
    for (let i = 0; i < 20; i += 1) {
      const lease = await (await client()).lock('agree').acquire()
      fences.push(lease.fence)
      const tickets = (await locks.view('agree'))[0]!.tickets
      expect(tickets).toHaveLength(1)
      expect(tickets[0]!.fence).toBe(lease.fence)
      await lease.release()
    }
    expect([...fences].sort((a, b) => (a < b ? -1 : 1))).toEqual(fences)
    expect(new Set(fences).size).toBe(fences.length)
    // Once the far-ahead server was among those who voted, everybody is beyond it.
    one.disconnect()
  })

  test('many who want one lock are all served, one at a time', async () => {
    const [a, b] = [await client(), await client()]
    let inside = 0
    let most = 0
    let served = 0
    await Promise.all(
      Array.from({ length: 60 }, (_, i) =>
        (i % 2 === 0 ? a : b).lock('hot').use(async () => {
          inside += 1
          most = Math.max(most, inside)
          await new Promise((resolve) => setTimeout(resolve, 1))
          inside -= 1
          served += 1
        }),
      ),
    )
    expect([most, served]).toEqual([1, 60])
  })

  test('nothing but the order and the mark of its run is left on a server', async () => {
    await Promise.all(clients.splice(0).map((locks) => locks.close()))
    for (const server of five.servers) {
      const raw = new Redis(server.url)
      for (const key of await raw.keys('*')) {
        // A tombstone (of a join that was broken off, or asked too early) lapses by itself.
        if (!['holdfast:\0last', 'holdfast:\0learnt'].includes(key)) expect(await raw.pttl(key), key).toBeGreaterThan(0)
      }
      raw.disconnect()
    }
  })
})
