import { Redis } from 'ioredis'
import { createCluster } from 'redis'
import { afterEach, expect, test } from 'vitest'
import { redis } from '../../src/backends/redis/index.js'
import { slotOf } from '../../src/backends/redis/keys.js'
import { connect } from '../../src/connect.js'
import { Holdfast } from '../../src/core/holdfast.js'
import type { Lease } from '../../src/core/lease.js'
import {
  type RedisCluster,
  type Server,
  startCluster,
  startProxy,
  startRedis,
  startSentinel,
} from '../servers/index.js'

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
  const one = new Redis(server.url, { maxRetriesPerRequest: 1 })
  one.on('error', () => undefined)
  try {
    return await one.call(command[0]!, ...command.slice(1))
  } finally {
    one.disconnect()
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

for (const replicas of [0, 1]) {
  const how = replicas === 0 ? 'without replicas, once the copies are there' : 'with replicas and one left to confirm'
  test(`Sentinel, ${how}: holds and waiters of a master that is killed go on at the new one`, async () => {
    const sentinels = await startSentinel({ replicas: 2 })
    cleanUp.push(() => sentinels.stop())
    const url = `${sentinels.url}?replicas=${replicas}`
    const [a, b] = [await client(url, '60s'), await client(url, '60s')]
    const { leases, waiting } = await holdAndWait(a, b, ['one', 'two', 'three'])
    await eventually('the replicas have all of it', async () => {
      const sizes = await Promise.all([sentinels.master, ...sentinels.replicas].map((one) => ask(one, 'DBSIZE')))
      return sizes.every((size) => size === sizes[0])
    })
    await sentinels.master.kill()
    await eventually('a replica took over', () => answers(() => b.view('one')))
    for (const lease of leases) expect(await gotByAnother(b, lease.name)).toBe(false)
    await eventually('all are renewed', () => answers(() => Promise.all(leases.map((lease) => lease.renew()))))
    await expectHandedOn(leases, waiting)
  })
}

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

test('Cluster of 3 + 3, without replicas: a master is killed; its lines go on at its replica, the others never stop', async () => {
  const { cluster, victim, there, elsewhere } = await clusterWithVictim()
  const [a, b] = [await client(cluster.url, '60s'), await client(cluster.url, '60s')]
  const { leases, waiting } = await holdAndWait(a, b, [...there, ...elsewhere])
  // Without `replicas` nothing promises that the copies are there; here they are.
  await eventually('the replicas have it', () => isCopied(cluster))
  await victim.kill()
  for (const name of elsewhere) expect(await b.lock(name).tryAcquire()).toBeUndefined()
  await eventually('its replica took over', () => answers(() => b.view(there[0]!)))
  for (const lease of leases) expect(await gotByAnother(b, lease.name)).toBe(false)
  await expectHandedOn(leases, waiting)
})

test('Cluster of 3 + 3, without replicas: a write that the replica lacked is lost, and the fence still grows', async () => {
  const { cluster, victim, there } = await clusterWithVictim()
  const [a, b] = [await client(cluster.url, '30s'), await client(cluster.url, '30s')]
  const [name] = there as [string]
  await (await a.lock(name).acquire()).release()
  await eventually('the replicas have the last order', () => isCopied(cluster))
  const replica = await replicaOf(cluster, victim)
  replica.pause()
  await ask(victim, 'CLIENT', 'KILL', 'TYPE', 'replica')
  const lease = await a.lock(name).acquire()
  await victim.kill()
  replica.resume()
  const next = await eventuallyAcquired(b, name)
  // What cannot hold: two holders for a moment. What does: the later has the higher fence, and the first is told.
  expect(next > lease.fence).toBe(true)
  await aborted(lease.signal)
  expect(lease.state).toBe('lost')
})

test('Cluster of 3 + 3, with replicas: a master is killed; nobody else gets what it gave, and it goes on when it is back', async () => {
  const { cluster, victim, there, elsewhere } = await clusterWithVictim()
  const url = `${cluster.url}?replicas=1&replicaTimeout=500ms`
  const [a, b] = [await client(url, '60s'), await client(url, '60s')]
  const { leases, waiting } = await holdAndWait(a, b, [...there, ...elsewhere])
  await victim.kill()
  await eventually('its replica took over', () => answers(() => b.view(there[0]!)))
  // Confirmed before the acquire returned: the copies are there without any wait.
  for (const lease of leases) expect(await gotByAnother(b, lease.name)).toBe(false)
  // With nobody left to confirm, a renewal is refused, not believed; those of the other masters go on.
  await expect(leases[0]!.renew()).rejects.toMatchObject({ code: 'BACKEND' })
  await leases.at(-1)!.renew()
  await victim.start()
  await eventually('all are renewed', () => answers(() => Promise.all(leases.map((lease) => lease.renew()))))
  await expectHandedOn(leases, waiting)
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

/** Makes a replica the master of its slots. A Cluster that has just been made may let the first call come to nothing. */
async function promote(heir: Server): Promise<void> {
  let askedAt = Number.NEGATIVE_INFINITY
  await eventually('the heir is the master', async () => {
    const [role] = (await ask(heir, 'ROLE')) as [string]
    if (role !== 'master' && performance.now() - askedAt > 6_000) {
      askedAt = performance.now()
      await ask(heir, 'CLUSTER', 'FAILOVER')
    }
    return role === 'master'
  })
}

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

interface Crowd {
  readonly leases: Lease[]
  readonly waiting: Promise<Lease>[]
}

/** One who holds and one who waits, for each name. */
async function holdAndWait(a: Holdfast, b: Holdfast, names: readonly string[]): Promise<Crowd> {
  const leases = await Promise.all(names.map((name) => a.lock(name).acquire()))
  const waiting = names.map((name) => b.lock(name).acquire({ wait: '60s' }))
  await eventually('they wait', async () => {
    const views = await Promise.all(names.map((name) => b.view(name)))
    return views.every((lines) => lines[0]?.tickets.length === 2)
  })
  return { leases, waiting }
}

/** Every hold was kept, is given back, and goes to who waited for it, with a higher fence. */
async function expectHandedOn(leases: readonly Lease[], waiting: readonly Promise<Lease>[]): Promise<void> {
  for (const lease of leases) expect(lease.signal.aborted).toBe(false)
  await Promise.all(leases.map((lease) => lease.release()))
  const next = await Promise.all(waiting)
  for (const [i, lease] of next.entries()) expect(lease.fence > leases[i]!.fence).toBe(true)
  await Promise.all(next.map((lease) => lease.release()))
}

/** A no and an unknown are both fine while servers change; a hold is not. */
async function gotByAnother(locks: Holdfast, name: string): Promise<boolean> {
  try {
    return (await locks.lock(name).tryAcquire()) !== undefined
  } catch (error) {
    expect(error).toMatchObject({ code: 'BACKEND', retryable: true })
    return false
  }
}

const answers = (ask: () => Promise<unknown>): Promise<boolean> =>
  ask().then(
    () => true,
    () => false,
  )

interface Doomed {
  readonly cluster: RedisCluster
  /** The master that is going to be killed. */
  readonly victim: Server
  /** Names of lines that it has, and that the other masters have. */
  readonly there: string[]
  readonly elsewhere: string[]
}

async function clusterWithVictim(): Promise<Doomed> {
  const cluster = await startCluster()
  cleanUp.push(() => cluster.stop())
  const victim = cluster.nodes[0]!
  const slots = (await ask(victim, 'CLUSTER', 'SLOTS')) as [number, number, [string, number, ...unknown[]]][]
  const isVictims = (name: string): boolean => {
    const slot = slotOf(`holdfast:${name}`)
    return slots.some(([from, to, [, port]]) => port === victim.port && slot >= from && slot <= to)
  }
  const names = Array.from({ length: 60 }, (_, i) => `line-${i}`)
  return {
    cluster,
    victim,
    there: names.filter(isVictims).slice(0, 5),
    elsewhere: names.filter((name) => !isVictims(name)).slice(0, 5),
  }
}

/** Masters and replicas have as many keys: nothing of what was written is still on its way. */
async function isCopied(cluster: RedisCluster): Promise<boolean> {
  const sizes = (await Promise.all(cluster.nodes.map((node) => ask(node, 'DBSIZE')))) as number[]
  const sum = (some: readonly number[]): number => some.reduce((total, size) => total + size, 0)
  return sum(sizes.slice(0, 3)) === sum(sizes.slice(3))
}

async function replicaOf(cluster: RedisCluster, master: Server): Promise<Server> {
  for (const node of cluster.nodes.slice(3)) {
    if (String(await ask(node, 'INFO', 'replication')).includes(`master_port:${master.port}`)) return node
  }
  throw new Error('That master has no replica.')
}

test('replicas, the connection leads to another master before the replica answered: what is held is on that one', async () => {
  const pair = async (): Promise<{ master: Server; replica: Server }> => {
    const master = await startRedis({ args: ['--repl-diskless-sync-delay', '0'] })
    const replica = await startRedis({ args: ['--replicaof', '127.0.0.1', String(master.port)] })
    cleanUp.push(() => Promise.all([master.stop(), replica.stop()]))
    const isUp = async (): Promise<boolean> =>
      String(await ask(replica, 'INFO', 'replication')).includes('master_link_status:up')
    await eventually('it has its copy', isUp)
    return { master, replica }
  }
  const [old, next] = [await pair(), await pair()]
  const proxy = await startProxy(old.master)
  cleanUp.push(() => proxy.stop())
  const ioredis = new Redis(proxy.port)
  const locks = new Holdfast(redis(ioredis, { replicas: 1, replicaTimeoutMs: 4_000 }))
  cleanUp.push(() => locks.close().then(() => ioredis.disconnect()))
  await (await locks.lock('warm').acquire()).release()
  old.replica.pause()
  const taking = locks.lock('cut').acquire()
  await eventually('it waits for the replica', async () =>
    String(await ask(old.master, 'CLIENT', 'LIST')).includes('cmd=wait'),
  )
  proxy.redirect(next.master)
  proxy.cutNow()
  const lease = await taking
  expect(await ask(next.master, 'EXISTS', 'holdfast:cut')).toBe(1)
  expect(await lease.release()).toBe(true)
  old.replica.resume()
})

interface Move {
  readonly from: Server
  readonly to: Server
  readonly finish: () => Promise<void>
}

/** A slot on its way from its master to another one; its keys are still where they were. */
async function beginMove(cluster: RedisCluster, slot: number): Promise<Move> {
  const masters = cluster.nodes.slice(0, 3)
  const slots = (await ask(masters[0]!, 'CLUSTER', 'SLOTS')) as [number, number, [string, number, ...unknown[]]][]
  const [, , [, port]] = slots.find(([first, last]) => slot >= first && slot <= last)!
  const from = masters.find((one) => one.port === port)!
  const to = masters.find((one) => one.port !== port)!
  const setSlot = (server: Server, ...words: string[]): Promise<unknown> =>
    ask(server, 'CLUSTER', 'SETSLOT', String(slot), ...words)
  const id = String(await ask(to, 'CLUSTER', 'MYID'))
  await setSlot(to, 'IMPORTING', String(await ask(from, 'CLUSTER', 'MYID')))
  await setSlot(from, 'MIGRATING', id)
  const finish = async (): Promise<void> => {
    // The last order given is in the slot, too: it goes along.
    const keys = (await ask(from, 'CLUSTER', 'GETKEYSINSLOT', String(slot), '100')) as string[]
    for (const key of keys) await ask(from, 'MIGRATE', '127.0.0.1', String(to.port), key, '0', '5000')
    for (const server of [to, from, ...masters]) await setSlot(server, 'NODE', id)
  }
  return { from, to, finish }
}

test('Cluster, a slot on its way to another master: what is given back meanwhile is gone, and takes no place', async () => {
  const cluster = await startCluster()
  cleanUp.push(() => cluster.stop())
  const locks = await connect(cluster.url, { ttl: '60s', callTimeout: '60s' })
  cleanUp.push(() => locks.close())
  const slot = slotOf('holdfast:moving')
  const gate = locks.semaphore('moving', 1)
  const lease = await gate.acquire()
  const { from, finish } = await beginMove(cluster, slot)
  const count = (): Promise<unknown> => ask(from, 'CLUSTER', 'COUNTKEYSINSLOT', String(slot))
  const keys = (await count()) as number
  const releasing = lease.release()
  await Promise.race([releasing, eventually('it has gone', async () => ((await count()) as number) < keys)])
  await finish()
  expect(typeof (await releasing)).toBe('boolean')
  const next = await gate.acquire({ wait: '30s' })
  expect(next.fence > lease.fence).toBe(true)
  await next.release()
})

test('Cluster, with replicas, through a client of the package redis: a slot that has moved is found', async () => {
  const cluster = await startCluster()
  cleanUp.push(() => cluster.stop())
  const nodeRedis = createCluster({ rootNodes: [{ url: cluster.nodes[0]!.url }] })
  nodeRedis.on('error', () => undefined)
  await nodeRedis.connect()
  const locks = new Holdfast(redis(nodeRedis, { replicas: 1 }))
  cleanUp.push(() => locks.close().then(() => nodeRedis.destroy()))
  const [name, slot] = ['moved', slotOf('holdfast:moved')]
  await (await locks.lock(name).acquire()).release()
  const { to, finish } = await beginMove(cluster, slot)
  await finish()
  const lease = await locks.lock(name).acquire({ wait: '20s' })
  // Renewals have a connection of their own, which has to find it, too.
  await eventually('it is renewed', () =>
    lease.renew().then(
      () => true,
      () => false,
    ),
  )
  expect(await ask(to, 'EXISTS', `holdfast:${name}`)).toBe(1)
  expect(await lease.release()).toBe(true)
})

test('Cluster, through a client of the package redis: a look at all lines leaves no connection to a master that was replaced', async () => {
  const cluster = await startCluster()
  cleanUp.push(() => cluster.stop())
  const nodeRedis = createCluster({ rootNodes: [{ url: cluster.nodes[0]!.url }] })
  nodeRedis.on('error', () => undefined)
  await nodeRedis.connect()
  const locks = new Holdfast(redis(nodeRedis))
  cleanUp.push(() => locks.close())
  const held = Array.from({ length: 30 }, (_, i) => `held-${i}`)
  for (const name of held) await locks.lock(name).acquire()
  const lines = locks.lines('held-')[Symbol.asyncIterator]()
  await lines.next()
  // The last one is looked at last.
  const { port } = nodeRedis.masters.at(-1)!
  const old = cluster.nodes.find((node) => node.port === port)!
  const replicas = (await ask(old, 'ROLE')) as [string, number, [string, string, string][]]
  const heir = cluster.nodes.find((node) => String(node.port) === replicas[2][0]![1])!
  await promote(heir)
  await eventually('the client knows the new master', async () => {
    await Promise.allSettled(held.map((name) => locks.view(name)))
    return nodeRedis.masters.every((master) => master.port !== port)
  })
  const rest = async (): Promise<void> => {
    while (!(await lines.next()).done);
  }
  await expect(rest()).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
  const seen: string[] = []
  for await (const { name } of locks.lines('held-')) seen.push(name)
  expect(seen.toSorted()).toEqual(held.toSorted())
  await locks.close()
  nodeRedis.destroy()
  const clients = async (): Promise<string[]> =>
    String(await ask(old, 'CLIENT', 'LIST', 'TYPE', 'normal'))
      .trim()
      .split('\n')
  await eventually('only the one who asks is there', async () => (await clients()).length === 1)
})
