import { Redis } from 'ioredis'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { connect } from '../../src/connect.js'
import type { Holdfast } from '../../src/core/holdfast.js'
import { type Server, startRedis, TurnedClock } from '../servers/index.js'

/** A Redis server whose wall clock steps while it runs. docs/backends/redis.md has the table. */

const HOUR_S = 3_600
const HOUR_US = 3_600_000_000n

let clock: TurnedClock
let server: Server
let raw: Redis
const clients: Holdfast[] = []

beforeEach(async () => {
  clock = new TurnedClock(HOUR_S)
  server = await startRedis({ clock })
  raw = new Redis(server.url)
})
afterEach(async () => {
  await Promise.all(clients.splice(0).map((locks) => locks.close()))
  raw.disconnect()
  await server.stop()
})

async function client(): Promise<Holdfast> {
  const locks = await connect(server.url, { ttl: '30s' })
  clients.push(locks)
  return locks
}

async function eventually(what: string, look: () => Promise<boolean> | boolean): Promise<void> {
  const end = performance.now() + 30_000
  while (!(await look())) {
    if (performance.now() > end) throw new Error(`not within 30 s: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

const now = (): bigint => BigInt(Date.now()) * 1_000n

test('an hour back, with the last order in place: fences grow, holds and waiters go on', async () => {
  const [a, b] = [await client(), await client()]
  const lease = await a.lock('back').acquire()
  expect(lease.fence > now() + HOUR_US - 60_000_000n).toBe(true)
  const permits = await Promise.all([0, 1].map(() => a.semaphore('back', 2).acquire()))
  const waiting = b.lock('back').acquire({ wait: '30s' })
  const third = b.semaphore('back', 2).acquire({ wait: '30s' })
  await eventually('both wait', async () => {
    const lines = await b.view('back')
    return lines.length === 2 && lines.reduce((sum, { tickets }) => sum + tickets.length, 0) === 5
  })
  clock.turn(0)
  expect(BigInt((await raw.time())[0]!) * 1_000_000n < lease.fence - HOUR_US / 2n).toBe(true)
  await lease.renew()
  expect(await b.lock('back').tryAcquire()).toBeUndefined()
  expect(await lease.release()).toBe(true)
  const next = await waiting
  expect(next.fence > lease.fence).toBe(true)
  for (const permit of permits) expect(await permit.release()).toBe(true)
  expect(await (await third).release()).toBe(true)
  // New ones draw from the last order given, which is still an hour ahead of the clock.
  const fresh = await a.lock('fresh').acquire()
  expect(fresh.fence > next.fence).toBe(true)
  await Promise.all([next.release(), fresh.release()])
})

test('an hour back: what cannot hold is that a crashed holder is gone after its ttl', async () => {
  await (await client()).lock('crashed').acquire()
  clock.turn(0)
  // Nobody renews any more: as it stands, it would take the hour as well.
  expect(await raw.pttl('holdfast:crashed')).toBeGreaterThan(HOUR_S * 900)
})

test('an hour back, and the last order lost: the one way in which the fence goes back', async () => {
  const locks = await client()
  const before = await locks.lock('lost').acquire()
  await before.release()
  clock.turn(0)
  await raw.flushall()
  const after = await locks.lock('lost').acquire()
  expect(after.fence < before.fence).toBe(true)
  await after.release()
})

test('an hour forward: every lease ends, the holder is told, and the fence grows', async () => {
  const [a, b] = [await client(), await client()]
  const lease = await a.lock('forward').acquire()
  clock.turn(2 * HOUR_S)
  // What cannot hold: another has it although the first has not heard yet.
  const next = await b.lock('forward').acquire({ wait: '30s' })
  expect(next.fence > lease.fence + HOUR_US / 2n).toBe(true)
  await lease.renew().catch(() => undefined)
  expect(lease.state).toBe('lost')
  expect(await lease.release()).toBe(false)
  expect(await next.release()).toBe(true)
})
