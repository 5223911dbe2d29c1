import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { BackendError } from '../../src/core/errors.js'
import type { Holdfast } from '../../src/core/holdfast.js'
import { type Proxy, startProxy } from '../servers/index.js'
import { cutWhereItMoves } from './cutting.js'
import { ThreeRedis } from './three-redis.js'

/**
 * Three servers, of which two break in the middle of a call. What they keep of it lasts for a minute, and everything is
 * waited for half as long: what comes in that time did not wait for a lease to end.
 */

const TTL_MS = 60_000
const PATIENCE_MS = TTL_MS / 2

let three: ThreeRedis
let servers: ThreeRedis['servers']
let proxies: ThreeRedis['proxies']

beforeAll(async () => {
  three = await ThreeRedis.start(TTL_MS, 1_500)
  ;({ servers, proxies } = three)
})
afterEach(() => three.heal())
afterAll(() => three.stop())

const client = (): Promise<Holdfast> => three.client()

async function eventually(what: string, look: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + PATIENCE_MS
  while (!(await look())) {
    if (performance.now() > end) throw new Error(`not within ${PATIENCE_MS} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** How many servers have a ticket that holds this lock. */
async function holding(name: string): Promise<number> {
  const found = servers.map(async (server) => {
    const redis = new Redis(server.url)
    try {
      return await redis.exists(`holdfast:${name}`)
    } finally {
      redis.disconnect()
    }
  })
  return (await Promise.all(found)).reduce((sum, one) => sum + one, 0)
}

const isFree = (name: string) => async (): Promise<boolean> => (await holding(name)) === 0

/** How two of three break while they are asked: always after they did what they were told. */
const breaks: Record<string, (proxy: Proxy) => Promise<void>> = {
  'the reply lost with the connection': async (proxy) => {
    proxy.replies.fault = 'cut'
    await proxy.next('replies')
    await proxy.heal()
  },
  'the reply lost, and nobody there for a while': async (proxy) => {
    proxy.replies.fault = 'drop'
    await proxy.next('replies')
    await proxy.refuse()
    await new Promise((resolve) => setTimeout(resolve, 500))
    await proxy.heal()
  },
  'the reply half sent': async (proxy) => {
    proxy.replies.fault = 'halve'
    await proxy.next('replies')
    await proxy.heal()
  },
}

const undefinedIfAborted = (error: unknown): undefined => {
  expect(error).toMatchObject({ name: 'AbortError' })
}

const undefinedIfUnknown = (error: unknown): undefined => {
  expect(error).toBeInstanceOf(BackendError)
}

describe('two of three servers break under a call', () => {
  for (const [what, breakIt] of Object.entries(breaks)) {
    const broken = async (): Promise<void> => void (await Promise.all(proxies.slice(0, 2).map(breakIt)))

    test(`a join, ${what}: the votes that nobody heard of are taken back before the next try`, async () => {
      const locks = await client()
      const name = `join ${what}`
      const breaking = broken()
      const lease = await locks.lock(name).acquire({ wait: PATIENCE_MS })
      await breaking
      expect((await locks.view(name))[0]!.tickets.map(({ fence }) => fence)).toEqual([lease.fence])
      await lease.release()
      await eventually('nothing of it is left', isFree(name))
    })

    test(`a try, ${what}: it is had, or unknown, and the lock is free again soon`, async () => {
      const [a, b] = [await client(), await client()]
      const name = `try ${what}`
      const breaking = broken()
      const lease = await a.lock(name).tryAcquire().catch(undefinedIfUnknown)
      await breaking
      await lease?.release()
      await eventually('nothing of it is left', isFree(name))
      const next = await b.lock(name).acquire({ wait: PATIENCE_MS })
      await next.release()
    })

    test(`a renewal, ${what}: the hold stays, and others stay out`, async () => {
      const [a, b] = [await client(), await client()]
      const name = `renew ${what}`
      const lease = await a.lock(name).acquire({ wait: PATIENCE_MS })
      const breaking = broken()
      await lease.renew().catch(undefinedIfUnknown)
      await breaking
      expect(lease.signal.aborted).toBe(false)
      expect(await b.lock(name).tryAcquire().catch(undefinedIfUnknown)).toBeUndefined()
      await eventually('it is held for certain', async () => {
        await lease.renew().catch(undefinedIfUnknown)
        return lease.state === 'held'
      })
      await lease.release()
      await eventually('nothing of it is left', isFree(name))
    })

    test(`a release, ${what}: the lock is free at once, everywhere`, async () => {
      const [a, b] = [await client(), await client()]
      const name = `leave ${what}`
      const lease = await a.lock(name).acquire({ wait: PATIENCE_MS })
      const breaking = broken()
      await lease.release()
      await breaking
      const next = await b.lock(name).acquire({ wait: PATIENCE_MS })
      expect(next.fence > lease.fence).toBe(true)
      await next.release()
      await eventually('nothing of it is left', isFree(name))
    })
  }

  test('one of three breaks under a release: its ticket is gone as soon as it is back', async () => {
    const locks = await client()
    const lease = await locks.lock('one').acquire({ wait: PATIENCE_MS })
    await eventually('all have it', async () => (await holding('one')) === 3)
    proxies[0]!.requests.fault = 'cut'
    await lease.release()
    await proxies[0]!.heal()
    await eventually('nothing of it is left', isFree('one'))
  })

  test('a release with one server away, and another whose reply is lost: done, once that one has answered', async () => {
    const locks = await client()
    const lease = await locks.lock('both').acquire({ wait: PATIENCE_MS })
    await eventually('all have it', async () => (await holding('both')) === 3)
    await proxies[0]!.refuse()
    proxies[1]!.replies.fault = 'cut'
    const lost = proxies[1]!.next('replies')
    const released = lease.release()
    await lost
    await proxies[1]!.heal()
    await released
    await proxies[0]!.heal()
    await eventually('nothing of it is left', isFree('both'))
  })

  test('a join that takes two messages and is overtaken by its own leave leaves nothing behind', async () => {
    const [a, b] = [await client(), await client()]
    const third = new Redis(servers[2]!.url)
    const keys = (): Promise<string[]> => third.keys('*overtaken*')
    const lease = await a.readWriteLock('overtaken').write.acquire({ wait: PATIENCE_MS })
    await eventually('all have it', async () => (await keys()).length > 0)
    await third.del(await keys())
    proxies[2]!.replies.fault = 'hold'
    // A takeover looks for the owner's earlier tickets first, and is only then sent.
    const options = { owner: 'other', takeover: true }
    expect(await b.readWriteLock('overtaken').write.tryAcquire(options)).toBeUndefined()
    const granted = proxies[2]!.next('replies', (chunk) => /g\d{16}/.test(chunk.toString()))
    await proxies[2]!.heal()
    await granted
    await eventually('it is gone there', async () => (await keys()).length === 0)
    third.disconnect()
    await lease.release()
  })

  test('connections that are cut all the time: all are served, one at a time, and nothing is left', async () => {
    const both = [await client(), await client()]
    let inside = 0
    let most = 0
    const stopCutting = cutWhereItMoves(proxies, 100, 60)
    let fence = 0n
    for (let i = 0; i < 20; i += 1) {
      await Promise.all(
        both.map((locks) =>
          locks.lock('cut').use(
            async (lease) => {
              inside += 1
              most = Math.max(most, inside)
              expect(lease.fence > fence).toBe(true)
              fence = lease.fence
              await new Promise((resolve) => setImmediate(resolve))
              inside -= 1
            },
            { wait: PATIENCE_MS },
          ),
        ),
      )
    }
    stopCutting()
    expect(most).toBe(1)
    await eventually('nothing of it is left', isFree('cut'))
  })
})

describe('two of three servers out of reach', () => {
  test('a try beside one that waits is unknown, as it is without: nobody said no', async () => {
    const locks = await client()
    for (const at of [0, 1]) proxies[at]!.blackhole()
    const leaving = new AbortController()
    const waiting = locks.lock('dark').acquire({ signal: leaving.signal }).catch(undefinedIfAborted)
    await proxies[2]!.next('requests')
    await expect(locks.lock('dark').tryAcquire()).rejects.toBeInstanceOf(BackendError)
    leaving.abort()
    await waiting
  })

  test('two tries in one call are both unknown', async () => {
    const locks = await client()
    for (const at of [0, 1]) proxies[at]!.blackhole()
    const tries = await Promise.allSettled([locks.lock('two').tryAcquire(), locks.lock('two').tryAcquire()])
    expect(tries.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  })

  test('all there: of two tries in one call one has it, and beside one that waits for another client a try is refused', async () => {
    const [a, b] = [await client(), await client()]
    const tries = await Promise.all([a.lock('there').tryAcquire(), a.lock('there').tryAcquire()])
    const [lease] = tries.filter((one) => one !== undefined)
    expect(tries).toContain(undefined)
    const waiting = b.lock('there').acquire({ wait: PATIENCE_MS })
    expect(await b.lock('there').tryAcquire()).toBeUndefined()
    await lease!.release()
    await (await waiting).release()
  })
})

describe('one server given twice', () => {
  let again: Proxy
  let hosts: string[]
  beforeEach(async () => {
    // All three learn from each other first: of two alone neither could.
    await client()
    again = await startProxy(servers[0]!)
    hosts = [proxies[0]!, again, proxies[1]!].map(({ port }) => `127.0.0.1:${port}`)
  })
  afterEach(() => again.stop())

  const twins = (): Promise<Holdfast> => three.client([proxies[0]!, again, proxies[1]!])

  test('has one voice', async () => {
    const locks = await twins()
    const lease = await locks.lock('twin').acquire({ wait: PATIENCE_MS })
    await lease.release()
    await proxies[1]!.refuse()
    await expect(locks.lock('twin').tryAcquire()).rejects.toMatchObject({
      code: 'BACKEND',
      message: expect.stringContaining(`${hosts[1]}: does not count: it is the same server as ${hosts[0]}`),
    })
  })

  test('does not get in its own way, however late the second way is', async () => {
    const locks = await twins()
    again.replies.fault = 'hold'
    const lease = await locks.lock('slow twin').acquire({ wait: PATIENCE_MS })
    await lease.release()
    await again.heal()
    // What its first answer made it ask for once more would be granted now, and its answer is kept back.
    again.replies.fault = 'hold'
    await new Promise((resolve) => setImmediate(resolve))
    for (let i = 0; i < 20; i += 1) {
      const next = await locks.lock('slow twin').tryAcquire()
      expect(next, `try ${i}`).toBeDefined()
      await next!.release()
    }
  })

  test('is seen once', async () => {
    const locks = await twins()
    const lease = await locks.lock('seen twin').acquire({ wait: PATIENCE_MS })
    expect((await locks.view('seen twin')).length).toBe(1)
    await proxies[1]!.refuse()
    await expect(locks.view('seen twin')).rejects.toMatchObject({ code: 'BACKEND' })
    await proxies[1]!.heal()
    await lease.release()
  })
})
