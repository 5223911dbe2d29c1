import { once } from 'node:events'
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { failure } from '../../src/backends/redis/failure.js'
import { guarantees } from '../../src/backends/redis/guarantees.js'
import { ownRedis, redis } from '../../src/backends/redis/index.js'
import { applies, cases, runCase } from '../../src/conformance/index.js'
import { openPort } from '../../src/conformance/port.js'
import { connect, openBackend } from '../../src/connect.js'
import type { Backend } from '../../src/core/backend.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { RW_CAPACITY } from '../../src/core/line.js'
import { ensure, freePort, releasePort, type Server, startRedis, startSentinel } from '../servers/index.js'

/** What is true of Redis alone. The suite's cases are in redis.test.ts. */

const LAST = 'holdfast:\0last'

/** What docs/backends/redis.md says a user needs. */
const RIGHTS = [
  '-@all',
  ...'hello|auth|select|client|ping|info|eval|evalsha|get|mget|set|del|exists|pexpire|pttl|time|publish|subscribe|scan'.split(
    '|',
  ),
  ...'zadd|zrem|zpopmin|zrange|zrangebyscore|zrank|zscore|zcount|hget|hset|hdel'.split('|'),
].map((word) => (word.startsWith('-') ? word : `+${word}`))

/** Polls; for what comes by itself, with a bound that only a broken store reaches. */
async function eventually(what: string, look: () => Promise<boolean> | boolean): Promise<void> {
  const end = performance.now() + 20_000
  while (!(await look())) {
    if (performance.now() > end) throw new Error(`not within 20 s: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

let server: Server
let raw: Redis
beforeAll(async () => {
  server = await startRedis()
  raw = new Redis(server.url)
})
afterAll(async () => {
  raw.disconnect()
  await server.stop()
})
beforeEach(async () => void (await raw.flushall()))

async function keysLeft(): Promise<string[]> {
  return (await raw.keys('*')).sort()
}

/** What clients sent while `fn` ran, without what scripts did. */
async function commandsOf(fn: () => Promise<unknown>): Promise<string[]> {
  const monitor = await raw.monitor()
  const seen: string[] = []
  const marker = randomUUID()
  const ended = new Promise<void>((resolve) => {
    monitor.on('monitor', (_time: string, args: string[], source: string) => {
      if (args.includes(marker)) resolve()
      else if (source !== 'lua') seen.push(args[0]!.toLowerCase())
    })
  })
  await fn()
  await raw.ping(marker)
  await ended
  monitor.disconnect()
  return seen.filter((name) => name !== 'info' && name !== 'hello' && name !== 'client')
}

describe('a mutex is a plain string', () => {
  test('while nobody waits: at prefix + name, with a TTL; one command takes it and one lets it go', async () => {
    const locks = await connect(server.url)
    await (await locks.lock('warm').acquire()).release()
    const seen = await commandsOf(async () => {
      const lease = await locks.lock('plain').acquire({ ttl: '10s' })
      expect(await raw.type('holdfast:plain')).toBe('string')
      expect(await raw.pttl('holdfast:plain')).toBeGreaterThan(5_000)
      expect(await keysLeft()).toEqual([LAST, 'holdfast:plain'])
      await lease.release()
    })
    expect(seen.filter((name) => name.startsWith('eval'))).toEqual(['evalsha', 'evalsha'])
    expect(await keysLeft()).toEqual([LAST])
    await locks.close()
  })

  test('a foreign SET NX PX excludes us, and we exclude it', async () => {
    const locks = await connect(`${server.url}?prefix=`)
    expect(await raw.set('shared', 'someone', 'PX', 60_000, 'NX')).toBe('OK')
    expect(await locks.lock('shared').tryAcquire()).toBeUndefined()
    await raw.del('shared')
    const lease = (await locks.lock('shared').tryAcquire())!
    expect(await raw.set('shared', 'someone', 'PX', 60_000, 'NX')).toBeNull()
    await lease.release()
    expect(await raw.set('shared', 'someone', 'PX', 60_000, 'NX')).toBe('OK')
    await locks.close()
  })

  test('who waits behind a foreign lock is served when it is deleted, and when it lapses', async () => {
    const locks = await connect(server.url)
    for (const ttl of [60_000, 400]) {
      await raw.set('holdfast:foreign', 'someone', 'PX', ttl, 'NX')
      const waiting = locks.lock('foreign').acquire({ wait: '20s' })
      await eventually('it waits', async () => (await locks.view('foreign'))[0]?.tickets.length === 2)
      const [first] = (await locks.view('foreign'))[0]!.tickets
      expect(first!.owner).toBe('not a Holdfast lock')
      if (ttl === 60_000) await raw.del('holdfast:foreign')
      await (await waiting).release()
    }
    await locks.close()
  })

  test('a foreign lock without a TTL is waited for, too', async () => {
    const locks = await connect(server.url)
    await raw.set('holdfast:forever', 'someone')
    const waiting = locks.lock('forever').acquire({ wait: '20s' })
    await eventually('it waits', async () => (await locks.view('forever'))[0]?.tickets.length === 2)
    await raw.del('holdfast:forever')
    await (await waiting).release()
    await locks.close()
  })

  test('a foreign compare-and-delete with another value does not free ours, nor does ours free theirs', async () => {
    const locks = await connect(server.url)
    const lease = await locks.lock('mine').acquire()
    const compareAndDelete = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0"
    expect(await raw.eval(compareAndDelete, 1, 'holdfast:mine', 'theirs')).toBe(0)
    await raw.set('holdfast:mine', 'theirs', 'PX', 60_000)
    expect(await lease.release()).toBe(false)
    expect(await raw.get('holdfast:mine')).toBe('theirs')
    await locks.close()
  })
})

describe('the fence', () => {
  async function fence(url: string): Promise<bigint> {
    const locks = await connect(url)
    const lease = await locks.lock('fenced').acquire()
    await lease.release()
    await locks.close()
    return lease.fence
  }

  test('is microseconds of the server, in whole digits', async () => {
    const [seconds] = await raw.time()
    const token = await fence(server.url)
    expect(token / 1_000_000n - BigInt(Number(seconds))).toBeLessThan(60n)
    expect(await raw.get(LAST)).toBe(String(token))
  })

  test('grows over FLUSHALL and over a restart without persistence', async () => {
    const own = await startRedis()
    const tokens = [await fence(own.url)]
    const client = new Redis(own.url)
    await client.flushall()
    client.disconnect()
    tokens.push(await fence(own.url))
    await own.kill()
    await own.start()
    tokens.push(await fence(own.url))
    await own.stop()
    expect(tokens[1]! > tokens[0]! && tokens[2]! > tokens[1]!).toBe(true)
  })

  test('grows from the last order given when the clock is an hour behind it', async () => {
    // What a step back of an hour leaves behind: an order from the future. (The step itself: faults/redis-clock.test.ts.)
    const [seconds] = await raw.time()
    const ahead = BigInt(Number(seconds) + 3_600) * 1_000_000n
    await raw.set(LAST, String(ahead))
    expect(await fence(server.url)).toBe(ahead + 1n)
    expect(await fence(server.url)).toBe(ahead + 2n)
    const locks = await connect(server.url)
    const leases = await Promise.all(['a', 'b', 'c'].map((name) => locks.lock(name).acquire()))
    expect(leases.map((lease) => lease.fence)).toEqual([ahead + 3n, ahead + 4n, ahead + 5n])
    await locks.close()
  })

  test('grows over a restart of a server with persistence', async () => {
    const own = await startRedis({ persistence: true })
    const before = await fence(own.url)
    await own.kill()
    await own.start()
    expect((await fence(own.url)) > before).toBe(true)
    await own.stop()
  })
})

describe('what one script does is bounded', () => {
  /** Commands inside scripts too, as the server counts them. */
  async function calls(): Promise<number> {
    const info = await raw.info('commandstats')
    return [...info.matchAll(/calls=(\d+)/g)].reduce((sum, match) => sum + Number(match[1]), 0)
  }

  async function handOver(waiting: number): Promise<{ sent: string[]; inside: number }> {
    const { backend, join, leave, renew } = await openPort(await openBackend(server.url), randomUUID().slice(0, 23))
    const line = { kind: 'mutex', name: `long-${waiting}` } as const
    const long = { ttlMs: 60_000, waitTtlMs: 60_000 }
    await backend.join([join(line, 'holder', long)])
    for (let from = 0; from < waiting; from += 250) {
      const some = Array.from({ length: Math.min(250, waiting - from) }, (_, i) => join(line, `w${from + i}`, long))
      await backend.join(some)
    }
    let inside = 0
    const sent = await commandsOf(async () => {
      const before = await calls()
      await backend.leave([leave(line, 'holder')])
      const [next] = await backend.renew([renew(line, 'w0')])
      expect(next!.state).toBe('granted')
      inside = (await calls()) - before
    })
    await backend.close()
    return { sent, inside }
  }

  test('a hand-over is two commands, with as much work inside for 10,000 who wait as for 100', async () => {
    const [few, many] = [await handOver(100), await handOver(10_000)]
    expect(few.sent).toEqual(['evalsha', 'evalsha'])
    expect(many.sent).toEqual(few.sent)
    expect(many.inside).toBe(few.inside)
  })

  test('hundreds of readers behind a writer are granted, in several short scripts', async () => {
    const { backend, heard, join, leave } = await openPort(await openBackend(server.url), randomUUID().slice(0, 23))
    const line = { kind: 'rw', name: 'crowd' } as const
    await backend.join([join(line, 'writer', { weight: RW_CAPACITY, capacity: RW_CAPACITY })])
    const readers = Array.from({ length: 450 }, (_, i) => join(line, `r${i}`, { capacity: RW_CAPACITY }))
    await backend.join(readers.slice(0, 225))
    await backend.join(readers.slice(225))
    await backend.leave([leave(line, 'writer')])
    await eventually('all are told', () => heard.grantedIds.length === 450)
    expect(heard.grantedIds).toEqual(readers.map((_, i) => `r${i}`))
    await backend.leave(readers.slice(0, 225).map((_, i) => leave(line, `r${i}`)))
    await backend.leave(readers.slice(225).map((_, i) => leave(line, `r${225 + i}`)))
    await backend.close()
    expect(await keysLeft()).toEqual([LAST])
  })

  test('a living waiter behind hundreds of dead ones is served', async () => {
    const { backend, join, leave, renew } = await openPort(await openBackend(server.url), randomUUID().slice(0, 23))
    for (const kind of ['mutex', 'semaphore'] as const) {
      const line = { kind, name: 'graves' } as const
      await backend.join([join(line, `${kind}-holder`)])
      const dead = Array.from({ length: 700 }, (_, i) => join(line, `${kind}-d${i}`, { waitTtlMs: 30 }))
      for (let from = 0; from < 700; from += 250) await backend.join(dead.slice(from, from + 250))
      await backend.join([join(line, `${kind}-living`)])
      await new Promise((resolve) => setTimeout(resolve, 60))
      await backend.leave([leave(line, `${kind}-holder`)])
      await eventually(
        'it is served',
        async () => (await backend.renew([renew(line, `${kind}-living`)]))[0]!.state === 'granted',
      )
      await backend.leave([leave(line, `${kind}-living`)])
    }
    await backend.close()
    await eventually('nothing is left', async () => (await keysLeft()).join() === LAST)
  })
})

describe('the server', () => {
  test('one bad item leaves the others of its call done and answered', async () => {
    const { backend, join, leave } = await openPort(await openBackend(server.url), randomUUID().slice(0, 23))
    await raw.lpush('holdfast:list', 'not a lock')
    const lines = ['one', 'list', 'two'].map((name) => ({ kind: 'mutex', name }) as const)
    const joined = await backend.join(lines.map((line, i) => join(line, `t${i}`)))
    expect(joined.map(({ state }) => state)).toEqual(['granted', 'failed', 'granted'])
    expect(joined[1]).toMatchObject({
      error: { code: 'BACKEND', retryable: false, message: expect.stringMatching(/WRONGTYPE.*prefix/) },
    })
    const left = await backend.leave(lines.map((line, i) => leave(line, `t${i}`)))
    expect([left[0], left[2]]).toEqual([true, true])
    expect(left[1]).toBeInstanceOf(Error)
    await backend.close()
  })

  test('scripts that were flushed are loaded again', async () => {
    const locks = await connect(server.url)
    const lease = await locks.lock('flushed').acquire()
    await raw.script('FLUSH')
    expect(await locks.view('flushed')).toHaveLength(1)
    await raw.script('FLUSH')
    await lease.renew()
    await raw.script('FLUSH')
    expect(await lease.release()).toBe(true)
    await raw.script('FLUSH')
    await (await locks.lock('flushed').acquire()).release()
    await locks.close()
  })

  test('when memory is full, what is held can be renewed and released, and the rest is told why not', async () => {
    const locks = await connect(server.url)
    const mutex = await locks.lock('full').acquire()
    const read = await locks.readWriteLock('full').read.acquire()
    const waiting = locks.lock('full').acquire()
    await eventually('it waits', async () => (await locks.view('full'))[0]!.tickets.length === 2)
    await raw.config('SET', 'maxmemory', '1')
    try {
      await mutex.renew()
      await read.renew()
      await expect(locks.lock('more').acquire()).rejects.toMatchObject({
        code: 'BACKEND',
        message: expect.stringMatching(/maxmemory/),
      })
      expect(await mutex.release()).toBe(true)
      const next = await waiting
      expect(await next.release()).toBe(true)
      expect(await read.release()).toBe(true)
    } finally {
      await raw.config('SET', 'maxmemory', '0')
    }
    await locks.close()
    // The join that failed has a tombstone, in case that it arrives late after all.
    expect((await keysLeft()).filter((key) => !key.endsWith(':more'))).toEqual([LAST])
  })

  test('an idle line leaves nothing behind, and dead clients only what lapses by itself', async () => {
    const { backend, join } = await openPort(await openBackend(server.url), randomUUID().slice(0, 23))
    for (const kind of ['mutex', 'rw', 'semaphore'] as const) {
      const line = { kind, name: 'dead' } as const
      await backend.join(['a', 'b'].map((id) => join(line, `${kind}${id}`, { ttlMs: 50, waitTtlMs: 50 })))
    }
    await backend.close()
    for (const key of await keysLeft()) if (key !== LAST) expect(await raw.pttl(key), key).toBeGreaterThan(0)
    await eventually('all keys have lapsed', async () => (await keysLeft()).join() === LAST)
  })

  test('before version 7, an error inside a script is told as text, and is the error that it tells of', () => {
    const inScript = (error: string): Error =>
      new Error(`ERR Error running script (call to f_5a1): @user_script:14: @user_script: 14: -${error}`)
    expect(failure(inScript("READONLY You can't write against a read only replica."), 'join a line')).toMatchObject({
      retryable: true,
    })
    expect(failure(inScript('OOM command not allowed.'), 'join a line')).toMatchObject({
      retryable: false,
      message: expect.stringMatching(/memory is full/),
    })
  })

  test('a key that is something else is no line', async () => {
    await raw.hset('holdfast:other', 'a', 'b')
    const locks = await connect(server.url)
    const lease = await locks.lock('ours').acquire()
    const names: string[] = []
    for await (const line of locks.lines('')) names.push(line.name)
    expect(names).toEqual(['ours'])
    await lease.release()
    await locks.close()
    await raw.del('holdfast:other')
  })

  test('a tombstone is kept for as long as it was asked for, and goes', async () => {
    const { backend, join, leave } = await openPort(await openBackend(server.url), randomUUID().slice(0, 23))
    const line = { kind: 'mutex', name: 'buried' } as const
    expect(await backend.leave([leave(line, 'late', { tombstoneMs: 300 })])).toEqual([false])
    expect((await backend.join([join(line, 'late')]))[0]!.state).toBe('gone')
    expect((await backend.join([join(line, 'other')]))[0]!.state).toBe('granted')
    await eventually('it is over', async () => (await backend.join([join(line, 'late')]))[0]!.state === 'waiting')
    await backend.leave([leave(line, 'late'), leave(line, 'other')])
    await backend.close()
    await eventually('nothing is left', async () => (await keysLeft()).join() === LAST)
  })
})

describe('what is left', () => {
  test('of a release with a `minHold` and an unanswered join: others are kept out for the one, the join for the other', async () => {
    const { backend, join, leave } = await openPort(await openBackend(server.url), randomUUID().slice(0, 23))
    for (const kind of ['mutex', 'rw', 'semaphore'] as const) {
      const line = { kind, name: 'kept' } as const
      const whole = kind === 'rw' ? { weight: RW_CAPACITY, capacity: RW_CAPACITY } : {}
      const [id, next] = [`${kind}-a`, `${kind}-b`]
      await backend.join([join(line, id, whole)])
      expect(await backend.leave([leave(line, id, { keepMs: 100, tombstoneMs: 60_000 })])).toEqual([true])
      await eventually('the next is served', async () => {
        const [standing] = await backend.join([join(line, next, { ...whole, wait: false })])
        return standing!.state === 'granted'
      })
      expect(await backend.leave([leave(line, next)])).toEqual([true])
      expect((await backend.join([join(line, id, whole)]))[0]!.state, kind).toBe('gone')
    }
    await backend.close()
    await raw.flushall()
  })

  test('of a line that began after a tombstone: every key goes by itself when its clients die', async () => {
    const { backend, join, leave } = await openPort(await openBackend(server.url), randomUUID().slice(0, 23))
    const [mutex, counted] = [{ kind: 'mutex', name: 'm' } as const, { kind: 'semaphore', name: 's' } as const]
    for (const line of [mutex, counted]) await backend.leave([leave(line, 'late', { tombstoneMs: 60_000 })])
    await backend.join([join(mutex, 'a'), join(counted, 'a')])
    await backend.join([join(mutex, 'b'), join(counted, 'b')])
    for (const key of (await keysLeft()).filter((one) => one !== LAST)) {
      expect(await raw.pttl(key), JSON.stringify(key)).toBeGreaterThan(0)
    }
    await backend.close()
    await raw.flushall()
  })

  test('of an acquire that was given up before its answer: nobody looks for it when the inbox is back', async () => {
    const { backend, heard, join, leave } = await openPort(await openBackend(server.url), randomUUID().slice(0, 23))
    const [given, kept] = [{ kind: 'mutex', name: 'given up' } as const, { kind: 'mutex', name: 'kept' } as const]
    // Lines in which somebody stood: the next goes there at once.
    await backend.join([join(given, 'holder'), join(kept, 'other holder')])
    await backend.join([join(given, 'first'), join(kept, 'second')])
    await backend.leave([leave(given, 'first'), leave(kept, 'second')])
    const joining = backend.join([join(given, 'gone'), join(kept, 'stays')])
    const leaving = backend.leave([leave(given, 'gone', { tombstoneMs: 60_000 })])
    await Promise.all([joining, leaving])
    await raw.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await eventually('the inbox is back', () => heard.movedNames.includes('kept'))
    expect(heard.movedNames).not.toContain('given up')
    await backend.close()
    await raw.flushall()
  })

  test('of failed opens: no listener', async () => {
    const client = new Redis(1, { lazyConnect: true, retryStrategy: () => null })
    const count = (): number[] => client.eventNames().map((name) => client.listenerCount(name))
    const open = async (): Promise<unknown> =>
      await openPort(ownRedis(client), 'x').catch((error: unknown) => (error as { code?: string }).code)
    expect(await open()).toBe('BACKEND')
    const first = count()
    for (let i = 0; i < 5; i += 1) expect(await open()).toBe('BACKEND')
    expect(count()).toEqual(first)
  })
})

describe('clients', () => {
  test('one of ioredis with a key prefix of its own keeps it, and hears of its grants', async () => {
    const client = new Redis(server.url, { keyPrefix: 'app:' })
    const [a, b] = [new Holdfast(redis(client)), new Holdfast(redis(client))]
    const lease = await a.lock('x').acquire()
    expect(await raw.exists('app:holdfast:x')).toBe(1)
    const waiting = b.lock('x').acquire()
    await eventually('it waits', async () => (await b.view('x'))[0]?.tickets.length === 2)
    const names: string[] = []
    for await (const line of b.lines('')) names.push(line.name)
    expect(names).toEqual(['x'])
    await lease.release()
    await (await waiting).release()
    await Promise.all([a.close(), b.close()])
    expect(client.status).toBe('ready')
    client.disconnect()
  })

  test.each([
    ['ioredis', () => new Redis(server.url)],
    ['ioredis with numbers as texts', () => new Redis(server.url, { stringNumbers: true })],
    ['ioredis with a key prefix', () => new Redis(server.url, { keyPrefix: 'app:' })],
    ['redis', () => createClient({ url: server.url }).connect()],
  ])('%s: any name and note is written as it is, and let go of', async (kind, make) => {
    const client = await make()
    const locks = new Holdfast(redis(client))
    const prefix = kind.endsWith('prefix') ? 'app:holdfast:' : 'holdfast:'
    for (const name of ['plain', 'ünï ☃ 🔒', '$3\r\nfoo\r\n', '{a}b{}']) {
      const lease = await locks.lock(name, { note: `of ${name}`, owner: 'Zoë\n' }).acquire()
      const value = await raw.get(prefix + name)
      expect(value?.split(' ')).toEqual(expect.arrayContaining(['hf1', '=', String(lease.fence)]))
      expect(JSON.parse(value!.slice(value!.indexOf('[')))).toEqual(expect.arrayContaining(['Zoë\n', `of ${name}`]))
      expect(await locks.lock(name).tryAcquire()).toBeUndefined()
      expect(await lease.release()).toBe(true)
      expect(await raw.exists(prefix + name)).toBe(0)
    }
    await locks.close()
    if (client instanceof Redis) client.disconnect()
    else client.destroy()
  })

  test('one of redis that is not connected is refused', async () => {
    const locks = new Holdfast(redis(createClient({ url: server.url })))
    await expect(locks.lock('x').acquire()).rejects.toMatchObject({
      code: 'CONFIG',
      message: expect.stringMatching(/connect\(\)/),
    })
  })

  test('a database number, a user with few rights and a password', async () => {
    await raw.call('ACL', 'SETUSER', 'locker', 'on', '>secret', '~holdfast:*', '&holdfast:*', ...RIGHTS)
    const locks = await connect(`redis://locker:secret@127.0.0.1:${server.port}/3`)
    const lease = await locks.lock('x').acquire()
    const waiting = locks.lock('x').acquire()
    await eventually('it waits', async () => (await locks.view('x'))[0]?.tickets.length === 2)
    await lease.renew()
    await lease.release()
    await (await waiting).release()
    const many = await Promise.all(['a', 'b', 'c'].map((name) => locks.semaphore(name, 1).acquire()))
    await Promise.all(many.map((one) => one.renew()))
    await Promise.all(many.map((one) => one.release()))
    const mutexes = await Promise.all(['a', 'b', 'c'].map((name) => locks.lock(name).acquire()))
    await Promise.all(mutexes.map((one) => one.renew()))
    await Promise.all(mutexes.map((one) => one.release()))
    const names: string[] = []
    for await (const line of locks.lines('')) names.push(line.name)
    expect(await keysLeft()).toEqual([])
    const other = new Redis(`${server.url}/3`)
    expect(await other.keys('*')).toEqual([LAST])
    await raw.call('ACL', 'SETUSER', 'locker', '-exists')
    await expect(locks.lock('x').tryAcquire()).rejects.toMatchObject({
      retryable: false,
      message: expect.stringMatching(/Rights/),
    })
    await locks.close()
    await raw.call('ACL', 'DELUSER', 'locker')
    await other.flushdb()
    other.disconnect()
  })

  test('a wrong password, port, database or path is told at once, without the secret', async () => {
    await raw.call('ACL', 'SETUSER', 'someone', 'on', '>right')
    const wrong = connect(`redis://someone:wr0ng@127.0.0.1:${server.port}`)
    await expect(wrong).rejects.toMatchObject({
      code: 'BACKEND',
      retryable: false,
      message: expect.stringMatching(/WRONGPASS/),
    })
    const shown = await wrong.catch((error: Error) => inspect(error, { depth: 20, showHidden: true }))
    expect(shown).not.toContain('wr0ng')
    await expect(connect('redis://127.0.0.1:1')).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
    await expect(connect(`${server.url}/nine`)).rejects.toMatchObject({ code: 'CONFIG' })
    await expect(connect(`${server.url}?prefx=a`)).rejects.toMatchObject({
      code: 'CONFIG',
      message: expect.stringMatching(/prefx/),
    })
    for (const query of ['tls=on', 'servername=a', 'replicas=1&replicaTimeout=10s', 'replicas=1&replicaTimeout=0']) {
      await expect(connect(`${server.url}?${query}`), query).rejects.toMatchObject({ code: 'CONFIG' })
    }
    await expect(connect(`rediss://127.0.0.1:${server.port}?tls=no`)).rejects.toMatchObject({ code: 'CONFIG' })
    await expect(connect(`redis+cluster://127.0.0.1:${server.port}/5`)).rejects.toMatchObject({ code: 'CONFIG' })
    await expect(connect(`${server.url}/99`)).rejects.toMatchObject({ code: 'BACKEND' })
    await raw.call('ACL', 'DELUSER', 'someone')
  })

  test('TLS, with the authority of the certificate named in the URL', async () => {
    const { directory } = server
    await ensure('openssl')
    const [key, cert] = [join(directory, 'key.pem'), join(directory, 'cert.pem')]
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
    execFileSync(
      'openssl',
      ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-keyout', key, '-out', cert, ...subject],
      { stdio: 'ignore' },
    )
    const port = await freePort()
    const own = await startRedis({
      args: [
        '--tls-port',
        String(port),
        '--tls-cert-file',
        cert,
        '--tls-key-file',
        key,
        '--tls-ca-cert-file',
        cert,
        '--tls-auth-clients',
        'no',
      ],
    })
    const locks = await connect(`rediss://localhost:${port}?ca=${encodeURIComponent(cert)}`)
    await (await locks.lock('x').acquire()).release()
    await locks.close()
    await expect(connect(`rediss://localhost:${port}`)).rejects.toMatchObject({
      code: 'BACKEND',
      message: expect.stringMatching(/self-signed|certificate/),
    })
    await own.stop()
    releasePort(port)
  })

  test('a connection of ours that the library has given up for good is made again', async () => {
    const client = new Redis(server.url, { lazyConnect: true, enableOfflineQueue: false })
    const locks = new Holdfast(ownRedis(client))
    const lease = await locks.lock('ended').acquire()
    const over = once(client, 'end')
    client.disconnect()
    await over
    await lease.renew().catch(() => undefined)
    await eventually('it is held', () => lease.state === 'held' && client.status === 'ready')
    expect(await lease.release()).toBe(true)
    await locks.close()
    await eventually('it is closed', () => client.status === 'end')
  })

  test('neither a held lease nor a server that is gone keeps the process alive', async () => {
    const own = await startRedis()
    const code = `
      import { connect } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)}
      const locks = await connect(process.argv[1])
      const lease = await locks.lock(process.argv[2]).acquire({ ttl: '60s' })
      if (process.argv[2] === 'gone') process.kill(Number(process.argv[3]), 9)
      console.log(lease.state)`
    for (const how of ['there', 'gone']) {
      const args = ['--input-type=module', '-e', code, own.url, how, String(own.pid)]
      expect(execFileSync(process.execPath, args, { timeout: 20_000 }).toString().trim()).toBe('held')
    }
    await own.stop()
  })
})

describe('redis, through a client of the package redis', () => {
  const clients: { destroy(): void }[] = []
  afterAll(() => clients.forEach((client) => client.destroy()))
  const makeBackend = async (): Promise<Backend> => {
    const client = createClient({ url: server.url })
    client.on('error', () => undefined)
    await client.connect()
    clients.push(client)
    return redis(client)
  }
  for (const one of cases) {
    if (one.processes !== true && applies(one, guarantees(false, 0), { makeBackend }))
      test(one.name, () => runCase(one, { makeBackend }))
  }
})

describe('replicas', () => {
  test('an acquire that the replica does not confirm is undone and says so', async () => {
    const sentinels = await startSentinel()
    const locks = await connect(`redis://127.0.0.1:${sentinels.master.port}?replicas=1&replicaTimeout=300ms`)
    const lease = await locks.lock('copied').acquire()
    const replica = new Redis(sentinels.replicas[0]!.url)
    expect(await replica.exists('holdfast:copied')).toBe(1)
    const waiting = locks.lock('copied').acquire({ wait: '20s' })
    await eventually('it waits', async () => (await locks.view('copied'))[0]?.tickets.length === 2)
    await lease.release()
    const next = await waiting
    expect(await replica.exists('holdfast:copied')).toBe(1)
    await next.release()
    replica.disconnect()
    sentinels.replicas[0]!.pause()
    await expect(locks.lock('alone').tryAcquire()).rejects.toMatchObject({
      code: 'BACKEND',
      retryable: true,
      message: expect.stringMatching(/replica/),
    })
    expect(await locks.view('alone')).toEqual([])
    sentinels.replicas[0]!.resume()
    await eventually('it is confirmed again', () =>
      locks
        .lock('alone')
        .tryAcquire()
        .then(
          (again) => again !== undefined,
          () => false,
        ),
    )
    await locks.close()
    await sentinels.stop()
  })
})
