import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { Link } from '../../src/backends/memcached/client/link.js'
import { Keys } from '../../src/backends/memcached/keys.js'
import { LineStore } from '../../src/backends/memcached/line-store.js'
import { append } from '../../src/backends/memcached/line-value.js'
import { connect } from '../../src/connect.js'
import type { Holdfast } from '../../src/core/holdfast.js'
import { type Proxy, type Server, startMemcached, startProxy } from '../servers/index.js'
import { cutWhereItMoves } from './cutting.js'

const TTL_MS = 1_500
const EVENTUALLY = { timeout: 30_000, interval: 20 }

let server: Server
/** Another line for every test: a call that was lost leaves a tombstone in its line for a minute. */
let name = ''
let count = 0
beforeEach(() => {
  count += 1
  name = `line-${count}`
})
const clients: Holdfast[] = []

/** A client that is closed after the test. */
async function open(url: string = server.url): Promise<Holdfast> {
  const client = await connect(url)
  clients.push(client)
  return client
}

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()))
})

describe('memcached forgets', () => {
  beforeEach(async () => {
    server = await startMemcached({ args: ['-m', '1', '-I', '512k'] })
  })
  afterEach(async () => {
    await server.stop()
  })

  // What holds: the holder is told at its next renewal. What cannot: until then two hold.
  async function holderIsToldAfter(forget: () => Promise<unknown>): Promise<void> {
    const [a, b] = [await open(), await open()]
    // Not renewed by itself meanwhile: that would make the line look wanted, and find out what is asked for below.
    const first = await a.lock(name).acquire({ ttl: '10m' })
    await forget()
    const second = await b.lock(name).acquire({ ttl: TTL_MS, wait: 10_000 })
    expect(first.state).toBe('held')
    const renewed = (): Promise<unknown> => first.renew().catch((error: unknown) => error)
    await vi.waitFor(async () => expect(await renewed()).toMatchObject({ code: 'LOCK_LOST' }), EVENTUALLY)
    expect(first.signal.aborted).toBe(true)
    // The one that lost it frees nobody else's hold.
    expect(await first.release()).toBe(false)
    expect(await a.lock(name).tryAcquire()).toBeUndefined()
    await second.renew()
    expect(second.state).toBe('held')
    await second.release()
    await a.lock(name).use(async () => {})
  }

  test('flush_all: two hold until the first renews, then it knows', async () => {
    await holderIsToldAfter(() => command('flush_all'))
  })

  test('eviction by other data: two hold until the first renews, then it knows', async () => {
    await holderIsToldAfter(fillWithJunk)
  })

  test('kill -9 and restart: two hold until the first renews, then it knows', async () => {
    await holderIsToldAfter(async () => {
      await server.kill()
      await server.start()
    })
  })

  test('waiters of a line that was forgotten stand in line again, and all are served', async () => {
    const [a, b] = [await open(), await open()]
    let served = 0
    const held = await a.lock(name).acquire({ ttl: TTL_MS })
    const waiting = [a, b].flatMap((locks) =>
      Array.from({ length: 10 }, () => locks.lock(name).use(async () => void (served += 1), { ttl: TTL_MS })),
    )
    await vi.waitFor(async () => expect((await a.view(name))[0]?.tickets).toHaveLength(21), EVENTUALLY)
    await command('flush_all')
    await Promise.all(waiting)
    expect(served).toBe(20)
    await vi.waitFor(() => expect(held.state).toBe('lost'), EVENTUALLY)
  })

  test('a version number from before a restart changes nothing after it', async () => {
    const line = { kind: 'mutex', name: 'x' } as const
    const ticket = { weight: 1, capacity: 1 }
    const makeStore = (): LineStore => new LineStore(new Link(server, { timeoutMs: 2_000 }), new Keys('holdfast:'))
    const before = makeStore()
    const old = await before.change(line, undefined, (seen) => ({
      write: append(seen.value, { id: 'old', ...ticket }),
    }))
    await server.kill()
    await server.start()
    const after = makeStore()
    const now = await after.change(line, undefined, (seen) => ({ write: append(seen.value, { id: 'new', ...ticket }) }))
    // The trap: the number names another value now.
    expect(now.cas).toBe(old.cas)
    const seen: string[][] = []
    await before.change(line, old, ({ value }) => {
      seen.push(value.entries.map(({ id }) => id))
      return { write: append(value, { id: 'late', ...ticket }) }
    })
    expect(seen).toEqual([['new']])
    expect((await after.readOne(line)).value.entries.map(({ id }) => id)).toEqual(['new', 'late'])
    before.link.close()
    after.link.close()
  })
})

describe('memcached does not answer', () => {
  beforeAll(async () => {
    server = await startMemcached()
  })
  afterAll(async () => {
    await server.stop()
  })

  let proxy: Proxy
  beforeEach(async () => {
    proxy = await startProxy(server)
  })
  afterEach(async () => {
    await proxy.stop()
  })
  // To connect takes longer than that on a busy machine, now and then.
  const throughProxy = (timeout = 300): Promise<Holdfast> =>
    vi.waitFor(() => open(`memcached://127.0.0.1:${proxy.port}?timeout=${timeout}`), EVENTUALLY)

  test('blackhole: the holder stops believing at its deadline, a try is an error and not a no', async () => {
    const [a, b] = [await throughProxy(), await open()]
    const lease = await a.lock(name).acquire({ ttl: TTL_MS })
    proxy.blackhole()
    await vi.waitFor(() => expect(lease.state).toBe('uncertain'), EVENTUALLY)
    await expect(a.lock('y').tryAcquire({ ttl: TTL_MS })).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
    await vi.waitFor(() => expect(lease.state).toBe('lost'), EVENTUALLY)
    // Nobody else could have it before.
    const next = await b.lock(name).acquire({ ttl: TTL_MS, wait: 20_000 })
    expect(lease.state).toBe('lost')
    await next.release()
    await proxy.heal()
    await a.lock(name).use(async () => {})
  })

  test('blackhole for less than the lease: the hold is kept', async () => {
    const a = await throughProxy()
    const lease = await a.lock(name).acquire({ ttl: 6_000 })
    proxy.blackhole()
    await vi.waitFor(() => expect(lease.state).toBe('uncertain'), EVENTUALLY)
    await proxy.heal()
    await vi.waitFor(() => expect(lease.state).toBe('held'), EVENTUALLY)
    expect(await lease.release()).toBe(true)
  })

  test('refused connections: the holder stops believing at its deadline, and goes on when it is over', async () => {
    const a = await throughProxy()
    const lease = await a.lock(name).acquire({ ttl: TTL_MS })
    await proxy.refuse()
    await vi.waitFor(() => expect(lease.state).toBe('lost'), EVENTUALLY)
    const again = a.lock(name).acquire({ wait: 20_000 })
    await proxy.heal()
    await (await again).release()
  })

  // The store did it, the client does not know: the same id finds what is there.
  test.each([
    ['join', 'ms holdfast:line:'],
    ['join, when it was only asked for', 'ms holdfast:ticket:'],
  ])('the lost reply of a %s: one ticket, and the lock is had', async (_, request) => {
    const [a, b] = [await throughProxy(), await open()]
    const sent = proxy.next('requests', request)
    proxy.replies.fault = 'drop'
    const acquiring = a.lock(name).acquire({ ttl: 5_000 })
    await sent
    await vi.waitFor(async () => expect((await b.view(name))[0]?.tickets).toHaveLength(1), EVENTUALLY)
    await proxy.heal()
    const lease = await acquiring
    expect((await b.view(name))[0]?.tickets).toHaveLength(1)
    expect(await lease.release()).toBe(true)
    expect(await b.view(name)).toEqual([])
  })

  test('the lost reply of a renewal: the hold is in doubt, then kept', async () => {
    const a = await throughProxy()
    const lease = await a.lock(name).acquire({ ttl: 6_000 })
    proxy.replies.fault = 'drop'
    const failed = lease.renew().catch((error: unknown) => error)
    expect(await failed).toMatchObject({ code: 'BACKEND' })
    await proxy.heal()
    await vi.waitFor(() => expect(lease.state).toBe('held'), EVENTUALLY)
    expect(await lease.release()).toBe(true)
  })

  test('the lost reply of a leave: the ticket is gone, and the release ends without an error', async () => {
    const [a, b] = [await throughProxy(), await open()]
    const lease = await a.lock(name).acquire({ ttl: 5_000 })
    proxy.replies.fault = 'drop'
    const releasing = lease.release()
    await vi.waitFor(async () => expect(await b.view(name)).toEqual([]), EVENTUALLY)
    await b.lock(name).use(async () => {})
    await proxy.heal()
    await releasing
  })

  test('a request that is lost on its way: nothing stands, and the next try has it', async () => {
    const a = await throughProxy()
    proxy.requests.fault = 'drop'
    const acquiring = a.lock(name).acquire({ ttl: TTL_MS, wait: 20_000 })
    await proxy.next('requests', 'ms ')
    await proxy.heal()
    await (await acquiring).release()
  })

  test.each(['requests', 'replies'] as const)('halved %s break the connection, not the lock', async (way) => {
    const [a, b] = [await throughProxy(), await open()]
    for (let round = 0; round < 5; round += 1) {
      proxy[way].fault = 'halve'
      const acquiring = a.lock(name).acquire({ ttl: 5_000, wait: 20_000 })
      await proxy.next(way)
      await proxy.heal()
      const lease = await acquiring
      expect(await b.lock(name).tryAcquire()).toBeUndefined()
      await lease.release()
    }
    await vi.waitFor(async () => expect(await b.view(name)).toEqual([]), EVENTUALLY)
  })

  test('connections cut again and again under load: never two at once, and everyone is served', async () => {
    const [a, b] = [await throughProxy(2_000), await open()]
    let inside = 0
    let served = 0
    const work = async (locks: Holdfast): Promise<void> => {
      await locks.lock(name).use(
        async () => {
          inside += 1
          expect(inside).toBe(1)
          await new Promise((resolve) => setTimeout(resolve, 3))
          inside -= 1
          served += 1
        },
        { ttl: 10_000 },
      )
    }
    const stopCutting = cutWhereItMoves([proxy], 25, 6)
    await Promise.all([a, b].flatMap((locks) => Array.from({ length: 60 }, () => work(locks))))
    stopCutting()
    expect(served).toBe(120)
    expect(proxy.accepted).toBeGreaterThan(3)
  })

  test('a release that nobody answers: the next is served when the lease is over', async () => {
    const [a, b] = [await throughProxy(), await open()]
    const lease = await a.lock(name).acquire({ ttl: TTL_MS })
    await proxy.refuse()
    const releasing = lease.release().catch((error: unknown) => error)
    const next = await b.lock(name).acquire({ wait: 20_000 })
    await releasing
    await next.release()
    await proxy.heal()
  })

  test('SIGSTOP of the server for less than the lease: nobody loses anything', async () => {
    const [a, b] = [await open(`${server.url}?timeout=200`), await open(`${server.url}?timeout=200`)]
    const lease = await a.lock(name).acquire({ ttl: 6_000 })
    const waiting = b.lock(name).acquire({ ttl: 6_000 })
    await vi.waitFor(async () => expect((await b.view(name))[0]?.tickets).toHaveLength(2), EVENTUALLY)
    server.pause()
    try {
      await expect(b.lock('y').tryAcquire({ ttl: TTL_MS })).rejects.toMatchObject({ code: 'BACKEND' })
    } finally {
      server.resume()
    }
    expect(lease.state).not.toBe('lost')
    await lease.renew()
    await lease.release()
    await (await waiting).release()
  })

  test('SIGSTOP of the server for longer than the lease: the holder knows before anyone else can hold', async () => {
    const [a, b] = [await open(`${server.url}?timeout=200`), await open(`${server.url}?timeout=200`)]
    const lease = await a.lock(name).acquire({ ttl: TTL_MS })
    server.pause()
    try {
      await vi.waitFor(() => expect(lease.state).toBe('lost'), EVENTUALLY)
    } finally {
      server.resume()
    }
    const next = await b.lock(name).acquire({ wait: 20_000 })
    expect(lease.state).toBe('lost')
    await next.release()
  })

  test('one of two servers down: the other’s names go on', async () => {
    const other = await startMemcached()
    const locks = await open(`memcached://127.0.0.1:${server.port},127.0.0.1:${other.port}?timeout=300`)
    await other.kill()
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        try {
          const lease = await locks.lock(`name-${index}`).tryAcquire({ ttl: TTL_MS })
          await lease?.release()
          return 'had'
        } catch (error) {
          expect(error).toMatchObject({ code: 'BACKEND', retryable: true })
          return 'unknown'
        }
      }),
    )
    expect(new Set(outcomes)).toEqual(new Set(['had', 'unknown']))
    await other.stop()
  })
})

async function command(text: string): Promise<void> {
  const link = new Link(server, { timeoutMs: 10_000 })
  const connection = await link.connection()
  await connection.send([text])
  link.close()
}

/** Fills the store with values of about the size of ours, which push them out, until the line is gone. */
async function fillWithJunk(): Promise<void> {
  const link = new Link(server, { timeoutMs: 30_000 })
  const connection = await link.connection()
  const line = new Keys('holdfast:').line({ kind: 'mutex', name })
  for (let round = 0; round < 500; round += 1) {
    const commands = Array.from({ length: 500 }, (_, index) => {
      const size = 40 + ((index * 7) % 300)
      return `ms junk:${round}:${index} ${size} T0\r\n${'x'.repeat(size)}`
    })
    await connection.send(commands)
    // The debug command: a get would make the line look wanted.
    const [reply] = await connection.send([`me ${line}`])
    if (reply?.code === 'EN') return link.close()
  }
  throw new Error('The line was not pushed out.')
}
