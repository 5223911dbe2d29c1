import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { answered, found, ZooKeeperClient } from '../../src/backends/zookeeper/client/client.js'
import { Writer } from '../../src/backends/zookeeper/client/jute.js'
import { zookeeper } from '../../src/backends/zookeeper/index.js'
import type { Backend, JoinRequest } from '../../src/core/backend.js'
import { type LockError, UnsupportedError } from '../../src/core/errors.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { type Proxy, type Server, startProxy, startZookeeper } from '../servers/index.js'
import { Contest } from './contest.js'

const SESSION_MS = 3_000
const EVENTUALLY = { timeout: 30_000, interval: 20 }
let server: Server
let proxy: Proxy
let raw: ZooKeeperClient
const clients: Holdfast[] = []

beforeAll(async () => {
  server = await startZookeeper()
  raw = await new Promise((resolve) => {
    const client: ZooKeeperClient = new ZooKeeperClient(
      { hosts: [{ host: '127.0.0.1', port: server.port }], timeoutMs: 10_000, tickMs: 200 },
      { connected: () => resolve(client), disconnected: () => undefined, expired: () => undefined },
    )
    client.session.start()
  })
})
beforeEach(async () => {
  proxy = await startProxy(server)
})
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()))
  await proxy.stop()
})
afterAll(async () => {
  await raw.session.close()
  await server.stop()
})

const make = (port: number): Backend =>
  zookeeper({ hosts: `127.0.0.1:${port}`, session: SESSION_MS, tick: '200ms', path: '/plain', unfair: true })

function connect(port: number): Holdfast {
  const client = new Holdfast(make(port))
  clients.push(client)
  return client
}

async function open(port: number): Promise<Backend> {
  const backend = make(port)
  await backend.open({ granted() {}, moved() {}, lost() {}, unsure() {} })
  return backend
}

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

const nodes = async (): Promise<string[]> =>
  (await found<string[]>((reply) => raw.getChildren('/plain/unfair', undefined, reply))) ?? []

/** Writes to a node, as somebody with a shell of ZooKeeper might. */
const write = (path: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const packet = (xid: number): Buffer =>
      new Writer().int(xid).int(5).text(path).buffer(Buffer.from('{}')).int(-1).packet()
    raw.session.request('write', true, packet, (error) => (error === undefined ? resolve() : reject(error)))
  })

test('other kinds are refused before anything is asked', () => {
  const locks = connect(server.port)
  expect(() => locks.readWriteLock('x')).toThrow(UnsupportedError)
  expect(() => locks.semaphore('x', 2)).toThrow(UnsupportedError)
})

test('those who give up while they run leave nothing behind', async () => {
  const racers = [connect(server.port), connect(server.port), connect(server.port)]
  await Promise.all(racers.map((one) => one.ready()))
  const outcomes = await Promise.allSettled(
    Array.from({ length: 90 }, async (_, i) => {
      // From before the first answer to well within the race.
      const lease = await racers[i % 3]!.lock('given up').acquire({ wait: Math.random() * 1_500 })
      await sleep(Math.random() * 3)
      await lease.release()
    }),
  )
  const reasons = outcomes.flatMap((one) => (one.status === 'rejected' ? [(one.reason as LockError).code] : []))
  // Unknown, for those whose wait was over before the first answer.
  for (const code of reasons) expect(['LOCK_TIMEOUT', 'BACKEND']).toContain(code)
  await vi.waitFor(async () => expect(await nodes()).toEqual([]), EVENTUALLY)
  for (const one of racers) await (await one.lock('given up').acquire({ wait: '20s' })).release()
})

test('a creation whose answer was lost is found again by its id', async () => {
  const backend = await open(proxy.port)
  const id = randomUUID()
  proxy.replies.fault = 'drop'
  const first = backend.join([request('lost answer', id)])
  await vi.waitFor(async () => expect(await nodes()).toContain('lost%20answer'), EVENTUALLY)
  proxy.cutNow()
  await proxy.heal()
  expect((await first)[0]).toMatchObject({ state: 'failed', error: { retryable: true } })
  expect((await backend.join([request('lost answer', id)]))[0]).toMatchObject({ state: 'granted' })
  const ref = { ...request('lost answer', id), handle: id, keepMs: 0, tombstoneMs: 0 }
  expect(await backend.leave([ref])).toEqual([true])
  expect(await nodes()).toEqual([])
  await backend.close()
})

test('what a failed try left behind is not taken for another that holds', async () => {
  const locks = connect(proxy.port)
  await locks.ready()
  proxy.replies.fault = 'drop'
  const failed = expect(locks.lock('left').tryAcquire()).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
  await vi.waitFor(async () => expect(await nodes()).toContain('left'), EVENTUALLY)
  await failed
  await proxy.heal()
  const lease = await vi.waitFor(() => locks.lock('left').tryAcquire(), EVENTUALLY)
  expect(lease?.state).toBe('held')
  await lease?.release()
})

test('a release whose answer was lost is a release, and is done once more where it was not', async () => {
  const backend = await open(proxy.port)
  const one = request('released', randomUUID())
  const ref = { ...one, handle: one.id, keepMs: 0, tombstoneMs: 0 }
  expect((await backend.join([one]))[0]).toMatchObject({ state: 'granted' })
  proxy.replies.fault = 'drop'
  const asked = proxy.next('replies')
  const leaving = backend.leave([ref])
  await asked
  proxy.cutNow()
  await proxy.heal()
  expect((await leaving)[0]).toMatchObject({ retryable: true })
  // What is left over goes by itself; and core asks again, for as long as the ticket may stand.
  await vi.waitFor(async () => expect(await nodes()).toEqual([]), EVENTUALLY)
  expect(await vi.waitFor(() => backend.leave([ref]), EVENTUALLY)).toEqual([true])
  await backend.close()
})

test('who gave up while cut off does not hold once the session is back', async () => {
  const [far, near] = [connect(proxy.port), connect(server.port)]
  const held = await near.lock('cut off').acquire()
  const giveUp = new AbortController()
  const waiting = far.lock('cut off').acquire({ signal: giveUp.signal })
  const refused = expect(waiting).rejects.toThrow('enough')
  await vi.waitFor(async () => expect((await far.view('cut off'))[0]!.tickets).toHaveLength(1), EVENTUALLY)
  await proxy.refuse()
  giveUp.abort(new Error('enough'))
  await refused
  await held.release()
  await proxy.heal()
  await far.ready()
  // Its session is back, and it has seen that the lock is free.
  expect(await vi.waitFor(() => far.view('cut off'), EVENTUALLY)).toEqual([])
  await (await near.lock('cut off').acquire({ wait: '20s' })).release()
  await vi.waitFor(async () => expect(await nodes()).toEqual([]), EVENTUALLY)
})

test('a holder that is cut off for longer than its session is lost before another holds', async () => {
  const [far, near] = [connect(proxy.port), connect(server.port)]
  const held = await far.lock('lost').acquire()
  const waiting = near.lock('lost').acquire()
  proxy.blackhole()
  const next = await waiting
  expect(held.state).toBe('lost')
  expect(held.signal.aborted).toBe(true)
  expect(next.fence).toBeGreaterThan(held.fence)
  await proxy.heal()
  expect(await held.release()).toBe(false)
  expect(next.state).toBe('held')
  await next.release()
})

test('a hold that its own client evicts is lost by its signal', async () => {
  const locks = connect(server.port)
  const held = await locks.lock('evicted').acquire()
  const [line] = await locks.view('evicted')
  expect(await locks.evict(line!.tickets[0]!)).toBe(true)
  await vi.waitFor(() => expect(held.signal.aborted).toBe(true), EVENTUALLY)
})

test('tries that race with a release leave nothing behind', async () => {
  const locks = connect(server.port)
  for (let round = 0; round < 300; round += 1) {
    const held = await locks.lock('tried').acquire({ wait: '20s' })
    const tries = Array.from({ length: 5 }, async () => {
      await sleep(Math.random() * 3)
      await (await locks.lock('tried').tryAcquire())?.release()
    })
    await sleep(Math.random() * 3)
    await held.release()
    await Promise.all(tries)
  }
  await vi.waitFor(async () => expect(await nodes()).toEqual([]), EVENTUALLY)
})

test('a hold whose node is written to is still watched, and released', async () => {
  const [one, other] = [connect(server.port), connect(server.port)]
  const held = await one.lock('written').acquire()
  await write('/plain/unfair/written')
  await answered<true>((reply) => raw.delete('/plain/unfair/written', reply))
  await using next = await other.lock('written').acquire({ wait: '20s' })
  await vi.waitFor(() => expect(held.signal.aborted).toBe(true), EVENTUALLY)
  expect(next.state).toBe('held')
  await next.release()
  const again = await one.lock('written').acquire({ wait: '20s' })
  await write('/plain/unfair/written')
  expect(await again.release()).toBe(true)
  expect(await nodes()).toEqual([])
})

test('a renewal looks at the node, and at which one it is', async () => {
  const [mine, theirs] = [await open(server.port), await open(server.port)]
  const one = request('renewed', randomUUID())
  const renew = async () => (await mine.renew([{ ...one, handle: one.id }]))[0]
  expect((await mine.join([one]))[0]).toMatchObject({ state: 'granted' })
  expect(await renew()).toMatchObject({ state: 'granted' })
  // In one breath: by the time that the holder watches it again, it is gone.
  await Promise.all([
    write('/plain/unfair/renewed'),
    answered<true>((reply) => raw.delete('/plain/unfair/renewed', reply)),
  ])
  expect((await theirs.join([request('renewed', randomUUID())]))[0]).toMatchObject({ state: 'granted' })
  expect(await renew()).toEqual({ state: 'gone' })
  await Promise.all([mine.close(), theirs.close()])
})

test('a folder that somebody removed is made again', async () => {
  const locks = connect(server.port)
  await (await locks.lock('folder').acquire()).release()
  await answered<true>((reply) => raw.delete('/plain/unfair', reply))
  await (await locks.lock('folder').acquire()).release()
})

test('a flapping connection: never two, fences grow, everyone is served', async () => {
  const contest = new Contest([connect(proxy.port), connect(server.port), connect(server.port)], 'flapping')
  for (let i = 0; i < 30; i += 1) {
    proxy.cutNow()
    await sleep(40 + Math.random() * 120)
  }
  await contest.everyoneServed(3)
  await contest.stop()
  expect(contest.violations).toEqual([])
  await vi.waitFor(async () => expect(await nodes()).toEqual([]), EVENTUALLY)
})
