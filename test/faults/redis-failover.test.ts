import { Redis } from 'ioredis'
import { afterEach, expect, test } from 'vitest'
import { slotOf } from '../../src/backends/redis/keys.js'
import { connect } from '../../src/connect.js'
import type { Holdfast } from '../../src/core/holdfast.js'
import { type Server, startCluster, startSentinel } from '../servers/index.js'

/** A replica takes over, by Sentinel and in a Cluster of 3 + 3. docs/backends/redis.md has the table. */

const cleanUp: (() => unknown)[] = []
afterEach(async () => {
  for (const undo of cleanUp.splice(0).toReversed()) await undo()
})

async function client(url: string, ttl: `${number}s`): Promise<Holdfast> {
  const locks = await connect(url, { ttl })
  cleanUp.push(() => locks.close())
  return locks
}

async function eventually(what: string, look: () => Promise<boolean> | boolean): Promise<void> {
  const end = performance.now() + 40_000
  while (!(await look())) {
    if (performance.now() > end) throw new Error(`not within 40 s: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener('abort', () => resolve())))

async function ask(server: Server, ...command: string[]): Promise<unknown> {
  const redis = new Redis(server.url, { maxRetriesPerRequest: 1 })
  redis.on('error', () => undefined)
  try {
    return await redis.call(command[0]!, ...command.slice(1))
  } finally {
    redis.disconnect()
  }
}

test('Sentinel, with replicas: the hold outlives the master, is excluded on the new one, and goes on', async () => {
  const sentinels = await startSentinel()
  cleanUp.push(() => sentinels.stop())
  const [a, b] = [await client(`${sentinels.url}?replicas=1`, '30s'), await client(sentinels.url, '30s')]
  const lease = await a.lock('copied').acquire()
  const waiting = b.lock('copied').acquire({ wait: '60s' })
  await eventually('it waits', async () => (await b.view('copied'))[0]?.tickets.length === 2)
  await sentinels.master.kill()
  await eventually('the replica took over', () =>
    b
      .lock('after')
      .tryAcquire()
      .then(
        (lease) => lease?.release() ?? false,
        () => false,
      ),
  )
  // The copy had been confirmed before the acquire returned: nobody else can have it.
  expect(await b.lock('copied').tryAcquire()).toBeUndefined()
  expect(lease.signal.aborted).toBe(false)
  // The old master was the only replica's source: with nobody left to confirm, a renewal is refused, not believed.
  await expect(lease.renew()).rejects.toMatchObject({ code: 'BACKEND' })
  await lease.release()
  const next = await waiting
  expect(next.fence > lease.fence).toBe(true)
  await next.release()
})

test('Sentinel, without replicas: a write that the replica lacked is lost, and the fence still grows', async () => {
  const sentinels = await startSentinel()
  cleanUp.push(() => sentinels.stop())
  const locks = await client(sentinels.url, '30s')
  await (await locks.lock('warm').acquire()).release()
  // The replica stops hearing: what the master takes from now on, it will not know.
  const [replica] = sentinels.replicas
  await eventually('the replica is up to date', async () => (await ask(replica!, 'EXISTS', 'holdfast:\0last')) === 1)
  replica!.pause()
  await ask(sentinels.master, 'CLIENT', 'KILL', 'TYPE', 'replica')
  const lease = await locks.lock('uncopied').acquire()
  await sentinels.master.kill()
  replica!.resume()
  const next = await eventuallyAcquired(locks, 'uncopied')
  // What cannot hold: two holders for a moment. What does: the later has the higher fence, and the first is told.
  expect(next > lease.fence).toBe(true)
  await aborted(lease.signal)
  expect(lease.state).toBe('lost')
})

test('Cluster of 3 + 3: a master dies; its lines go on at its replica, the others never stopped', async () => {
  const cluster = await startCluster()
  cleanUp.push(() => cluster.stop())
  const [a, b] = [await client(cluster.url, '30s'), await client(cluster.url, '30s')]
  const victim = cluster.nodes[0]!
  const slots = (await ask(victim, 'CLUSTER', 'SLOTS')) as [number, number, [string, number, ...unknown[]]][]
  const isVictims = (name: string): boolean =>
    slots.some(
      ([from, to, [, port]]) =>
        port === victim.port && slotOf(`holdfast:${name}`) >= from && slotOf(`holdfast:${name}`) <= to,
    )
  const names = Array.from({ length: 60 }, (_, i) => `line-${i}`)
  const [there, elsewhere] = [names.filter(isVictims).slice(0, 5), names.filter((name) => !isVictims(name)).slice(0, 5)]
  const leases = await Promise.all([...there, ...elsewhere].map((name) => a.lock(name).acquire()))
  const waiting = there.map((name) => b.lock(name).acquire({ wait: '60s' }))
  await eventually('they wait', async () => {
    const views = await Promise.all(there.map((name) => b.view(name)))
    return views.every((lines) => lines[0]?.tickets.length === 2)
  })
  // Long enough for the replicas to have it: without `replicas` that is not promised, but usual.
  await new Promise((resolve) => setTimeout(resolve, 300))
  await victim.kill()
  for (const name of elsewhere) expect(await b.lock(name).tryAcquire()).toBeUndefined()
  await eventually('the replica took over', () =>
    b.view(there[0]!).then(
      (lines) => lines.length === 1,
      () => false,
    ),
  )
  for (const lease of leases) expect(lease.signal.aborted).toBe(false)
  for (const lease of leases) await lease.release()
  const next = await Promise.all(waiting)
  for (const [i, lease] of next.entries()) expect(lease.fence > leases[i]!.fence).toBe(true)
  await Promise.all(next.map((lease) => lease.release()))
})

test('Cluster, with replicas: an acquire is confirmed by the replica of its slot', async () => {
  const cluster = await startCluster()
  cleanUp.push(() => cluster.stop())
  const locks = await client(`${cluster.url}?replicas=1&replicaTimeout=500ms`, '20s')
  const leases = await Promise.all(Array.from({ length: 12 }, (_, i) => locks.lock(`copied-${i}`).acquire()))
  for (const replica of cluster.nodes.slice(3)) replica.pause()
  await expect(locks.lock('copied-0-not').tryAcquire()).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
  for (const replica of cluster.nodes.slice(3)) replica.resume()
  await eventually('all are held', () => leases.every((lease) => lease.state === 'held'))
  await Promise.all(leases.map((lease) => lease.release()))
})

async function eventuallyAcquired(locks: Holdfast, name: string): Promise<bigint> {
  let fence = 0n
  await eventually('it is acquired', async () => {
    const lease = await locks
      .lock(name)
      .tryAcquire()
      .catch(() => undefined)
    fence = lease?.fence ?? 0n
    return lease !== undefined
  })
  return fence
}
