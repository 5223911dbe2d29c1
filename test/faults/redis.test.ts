import { Redis } from 'ioredis'
import { afterEach, describe, expect, test } from 'vitest'
import { connect } from '../../src/connect.js'
import type { Holdfast } from '../../src/core/holdfast.js'
import { type Proxy, type Server, startProxy, startRedis } from '../servers/index.js'

/** One Redis server, and what breaks on the way to it. docs/backends/redis.md has the table. */

const cleanUp: (() => unknown)[] = []
afterEach(async () => {
  for (const undo of cleanUp.splice(0).toReversed()) await undo()
})

async function server(options: Parameters<typeof startRedis>[0] = {}): Promise<Server> {
  const started = await startRedis(options)
  cleanUp.push(() => started.stop())
  return started
}

async function client(url: string, ttl: `${number}s` = '2s'): Promise<Holdfast> {
  const locks = await connect(url, { ttl })
  cleanUp.push(() => locks.close())
  return locks
}

async function behindProxy(target: Server): Promise<{ proxy: Proxy; url: string }> {
  const proxy = await startProxy(target)
  cleanUp.push(() => proxy.stop())
  return { proxy, url: `redis://127.0.0.1:${proxy.port}` }
}

function raw(target: Server): Redis {
  const redis = new Redis(target.url, { maxRetriesPerRequest: 1 })
  redis.on('error', () => undefined)
  cleanUp.push(() => redis.disconnect())
  return redis
}

async function eventually(what: string, look: () => Promise<boolean> | boolean): Promise<void> {
  const end = performance.now() + 30_000
  while (!(await look())) {
    if (performance.now() > end) throw new Error(`not within 30 s: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener('abort', () => resolve())))

describe('a lost reply', () => {
  test('of a join: the hold is had once, by the caller, or by nobody', async () => {
    const redis = await server()
    const { proxy, url } = await behindProxy(redis)
    const [near, far] = [await client(redis.url), await client(url)]
    await (await far.lock('warm').acquire()).release()
    proxy.replies.fault = 'drop'
    const pending = far.lock('join').acquire({ wait: '25s' })
    await eventually('the join arrived', async () => (await near.view('join')).length === 1)
    proxy.cutNow()
    await proxy.heal()
    const lease = await pending
    expect((await near.view('join'))[0]!.tickets).toHaveLength(1)
    expect(await near.lock('join').tryAcquire()).toBeUndefined()
    expect(await lease.release()).toBe(true)
    expect(await near.view('join')).toEqual([])
  })

  test('of a join that is given up meanwhile: no ticket is left', async () => {
    const redis = await server()
    const { proxy, url } = await behindProxy(redis)
    const [near, far] = [await client(redis.url), await client(url)]
    await (await far.lock('warm').acquire()).release()
    proxy.replies.fault = 'drop'
    const pending = far.lock('given-up').acquire({ wait: '300ms' })
    await expect(pending).rejects.toMatchObject({ code: expect.stringMatching(/LOCK_TIMEOUT|BACKEND/) })
    proxy.cutNow()
    await proxy.heal()
    await eventually('it is free', async () => (await near.view('given-up')).length === 0)
  })

  test('of a renewal: uncertain, not lost, and held again when the next one answers', async () => {
    const redis = await server()
    const { proxy, url } = await behindProxy(redis)
    const far = await client(url, '6s')
    const lease = await far.lock('renew').acquire()
    proxy.replies.fault = 'drop'
    const renewal = lease.renew().catch(() => undefined)
    await proxy.next('requests', 'evalsha')
    proxy.cutNow()
    await proxy.heal()
    await renewal
    await eventually('it is held', () => lease.state === 'held')
    lease.assertHeld()
    expect(lease.signal.aborted).toBe(false)
    expect(await lease.release()).toBe(true)
  })

  test('of a leave: it is asked again, and the next is served', async () => {
    const redis = await server()
    const { proxy, url } = await behindProxy(redis)
    const [near, far] = [await client(redis.url), await client(url, '10s')]
    // A server that does not know a script yet would be asked twice.
    const warm = await far.lock('warm').acquire()
    const follower = near.lock('warm').acquire()
    await eventually('it waits', async () => (await near.view('warm'))[0]?.tickets.length === 2)
    await warm.release()
    await (await follower).release()
    const gate = await near.lock('gate').acquire()
    const passing = far.lock('gate').acquire()
    await eventually('it waits', async () => (await near.view('gate'))[0]?.tickets.length === 2)
    const lease = await far.lock('leave').acquire()
    const waiting = near.lock('leave').acquire()
    await eventually('it waits', async () => (await near.view('leave'))[0]?.tickets.length === 2)
    // One inbox hears in order: by now also that somebody waits.
    await gate.release()
    await (await passing).release()
    proxy.replies.fault = 'drop'
    const release = lease.release()
    const next = await waiting
    proxy.cutNow()
    await proxy.heal()
    // It had left; that the answer was lost makes it a "was not there any more", never an error.
    expect(typeof (await release)).toBe('boolean')
    expect(next.fence > lease.fence).toBe(true)
    await next.release()
  })

  test('halved requests and replies: nothing is believed that was not answered whole', async () => {
    const redis = await server()
    const { proxy, url } = await behindProxy(redis)
    const [near, far] = [await client(redis.url), await client(url)]
    for (const way of ['requests', 'replies'] as const) {
      proxy[way].fault = 'halve'
      const pending = far.lock(`half-${way}`).acquire({ wait: '25s' })
      await proxy.next(way)
      await proxy.heal()
      const lease = await pending
      expect(await near.lock(`half-${way}`).tryAcquire()).toBeUndefined()
      await lease.release()
    }
  })
})

describe('the connection', () => {
  test('cut by CLIENT KILL: holds stay, waiters are served, new work goes on', async () => {
    const redis = await server()
    const locks = await client(redis.url, '5s')
    const lease = await locks.lock('killed').acquire()
    const waiting = locks.lock('killed').acquire()
    await eventually('it waits', async () => (await locks.view('killed'))[0]?.tickets.length === 2)
    const other = raw(redis)
    await other.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await other.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await eventually('it is held again', () => lease.state === 'held')
    expect(await lease.release()).toBe(true)
    expect(await (await waiting).release()).toBe(true)
  })

  test('a wake-up that is missed costs a renewal at most', async () => {
    const redis = await server()
    const { proxy, url } = await behindProxy(redis)
    const [near, far] = [await client(redis.url, '10s'), await client(url, '10s')]
    const lease = await near.lock('missed').acquire()
    const waiting = far.lock('missed').acquire()
    await eventually('it waits', async () => (await near.view('missed'))[0]?.tickets.length === 2)
    proxy.replies.fault = 'drop'
    await lease.release()
    proxy.replies.fault = 'pass'
    expect(await (await waiting).release()).toBe(true)
  })

  test('blackholed: the holder stops believing at its deadline, and the waiter gives up in time', async () => {
    const redis = await server()
    const { proxy, url } = await behindProxy(redis)
    const [near, far] = [await client(redis.url), await client(url)]
    const lease = await far.lock('hole').acquire()
    proxy.blackhole()
    await aborted(lease.signal)
    expect(lease.state).toBe('lost')
    const next = await near.lock('hole').acquire({ wait: '20s' })
    expect(next.fence > lease.fence).toBe(true)
    await expect(far.lock('hole').acquire({ wait: '1s' })).rejects.toMatchObject({
      code: expect.stringMatching(/LOCK_TIMEOUT|BACKEND/),
    })
    await proxy.heal()
    proxy.cutNow()
    await next.release()
  })

  test('to a server that is stopped (SIGSTOP) past the ttl: the old holder knows, and frees nobody else’s hold', async () => {
    const redis = await server()
    const locks = await client(redis.url, '1s')
    const lease = await locks.lock('paused').acquire()
    redis.pause()
    await aborted(lease.signal)
    redis.resume()
    const next = await (await client(redis.url)).lock('paused').acquire({ wait: '20s' })
    expect(await lease.release()).toBe(false)
    next.assertHeld()
    expect(next.fence > lease.fence).toBe(true)
    expect(await next.release()).toBe(true)
  })
})

describe('the server', () => {
  test('killed and started again with its data: holds stay, their holders go on', async () => {
    const redis = await server({ persistence: true })
    const locks = await client(redis.url, '10s')
    const lease = await locks.lock('kept').acquire()
    await redis.kill()
    await redis.start()
    await eventually('it answers', () =>
      lease.renew().then(
        () => true,
        () => false,
      ),
    )
    expect(lease.state).toBe('held')
    expect(await (await client(redis.url)).lock('kept').tryAcquire()).toBeUndefined()
    expect(await lease.release()).toBe(true)
  })

  test('killed and started again without its data: the holder is told soon, and the fence still grows', async () => {
    const redis = await server()
    const locks = await client(redis.url, '20s')
    const lease = await locks.lock('wiped').acquire()
    await redis.kill()
    await redis.start()
    // What cannot hold: another may have it before the first holder has heard. The fence tells them apart.
    const next = await (await client(redis.url)).lock('wiped').acquire({ wait: '20s' })
    expect(next.fence > lease.fence).toBe(true)
    await aborted(lease.signal)
    expect(lease.state).toBe('lost')
    expect(await lease.release()).toBe(false)
    expect(await next.release()).toBe(true)
  })

  test('while it loads its data, waiters wait and are served after it', async () => {
    const redis = await server({ persistence: true })
    const fill = raw(redis)
    await fill.eval("for i=1,200000 do redis.call('SET','junk:'..i,i) end", 0)
    fill.disconnect()
    const locks = await client(redis.url)
    await redis.kill()
    const waiting = locks.lock('loading').acquire({ wait: '30s' })
    await redis.start()
    expect(await (await waiting).release()).toBe(true)
  })

  test('made a replica (READONLY) and a master again: no hold is given meanwhile, and work goes on after', async () => {
    const [redis, other] = [await server(), await server()]
    const locks = await client(redis.url)
    await (await locks.lock('warm').acquire()).release()
    const admin = raw(redis)
    await admin.replicaof('127.0.0.1', other.port)
    const waiting = locks.lock('readonly').acquire({ wait: '30s' })
    await expect(locks.lock('readonly').tryAcquire()).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
    await admin.replicaof('NO', 'ONE')
    expect(await (await waiting).release()).toBe(true)
  })

  test('gone for good: an acquire says so instead of waiting for ever', async () => {
    const redis = await server()
    const locks = await client(redis.url)
    await redis.kill()
    await expect(locks.lock('gone').acquire({ wait: '1s' })).rejects.toMatchObject({
      code: expect.stringMatching(/LOCK_TIMEOUT|BACKEND/),
    })
    await expect(locks.lock('gone').tryAcquire()).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
  })

  // What cannot hold: two may hold until the first renews. What does: the fence tells them apart, and the first is told.
  async function expectForgotten(locks: Holdfast, target: Server, forget: (admin: Redis) => Promise<unknown>) {
    const lease = await locks.lock('forgotten').acquire()
    const waiting = locks.lock('forgotten').acquire({ wait: '30s' })
    await eventually('it waits', async () => (await locks.view('forgotten'))[0]?.tickets.length === 2)
    await forget(raw(target))
    // The waiter stands in line again by itself, before or behind one who comes now.
    const other = (await client(target.url)).lock('forgotten').acquire({ wait: '30s' })
    const served = [waiting, other].map(async (acquiring) => {
      const next = await acquiring
      expect(next.fence > lease.fence).toBe(true)
      expect(await next.release()).toBe(true)
    })
    await aborted(lease.signal)
    expect(lease.state).toBe('lost')
    expect(await lease.release()).toBe(false)
    await Promise.all(served)
  }

  test('flushed (FLUSHALL): holders are told at their next renewal, waiters stand in line again, the fence grows', async () => {
    const redis = await server()
    await expectForgotten(await client(redis.url), redis, (admin) => admin.flushall())
  })

  test('full, and allowed to evict anything (allkeys-random): the same', async () => {
    const redis = await server()
    await expectForgotten(await client(redis.url), redis, async (admin) => {
      await admin.config('SET', 'maxmemory-policy', 'allkeys-random')
      await admin.config('SET', 'maxmemory', '1')
      await eventually('all is evicted', async () => (await admin.set('junk', '1').catch(() => admin.dbsize())) === 0)
      await admin.config('SET', 'maxmemory', '0')
    })
  })
})
