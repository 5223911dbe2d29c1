import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { EtcdBackend } from '../../src/backends/etcd/etcd-backend.js'
import { etcd } from '../../src/backends/etcd/index.js'
import { leaseRequest } from '../../src/backends/etcd/messages.js'
import { runTxn } from '../../src/backends/etcd/store.js'
import { Writer } from '../../src/backends/etcd/wire.js'
import type { JoinRequest } from '../../src/core/backend.js'
import { ConfigError, connect, type Holdfast, BackendError, LockTimeoutError } from '../../src/index.js'
import { type Server, startEtcd } from '../servers/index.js'
import { describeBackend } from '../suite.js'

// Nothing is asked of a server before it is opened: the guarantees are known at once.
describeBackend('etcd', etcd({ hosts: ['localhost'] }).guarantees, () => startEtcd())

function compactRequest(revision: bigint): Buffer {
  return new Writer().int(1, revision).finish()
}

describe('etcd alone', () => {
  let server: Server
  const cleanups: (() => Promise<unknown>)[] = []

  beforeAll(async () => {
    server = await startEtcd()
  })

  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
  })

  afterAll(async () => {
    await server.stop()
  })

  async function opened(): Promise<EtcdBackend> {
    const backend = new EtcdBackend({
      endpoints: [{ host: '127.0.0.1', port: server.port }],
      prefix: 'holdfast/',
      callTimeoutMs: 4_000,
    })
    await backend.open({ granted() {}, moved() {}, lost() {}, unsure() {} })
    cleanups.push(() => backend.close())
    return backend
  }

  async function client(url: string = server.url): Promise<Holdfast> {
    const made = await connect(url)
    cleanups.push(() => made.close())
    return made
  }

  function request(name: string, id: string, ttlMs = 3_000): JoinRequest {
    const holder = { owner: 'test', client: 'test', host: 'here', pid: 1 }
    const line = { kind: 'mutex', name } as const
    return { line, id, weight: 1, capacity: 1, wait: true, ttlMs, waitTtlMs: 2_000, holder, takeover: false }
  }

  test('tickets of one line in one call have orders of their own, in the order of the call', async () => {
    const backend = await opened()
    const ids = ['a', 'b', 'c'].map((id) => `together-${id}`)
    const standings = await backend.join(ids.map((id) => request('together', id)))
    expect(standings.map(({ state }) => state)).toEqual(['granted', 'waiting', 'waiting'])
    const [line] = await backend.view('together')
    expect(line?.tickets.map(({ id }) => id)).toEqual(ids)
    expect(new Set(line?.tickets.map(({ order }) => order)).size).toBe(3)
  })

  test('one lease that has ended does not spoil the tickets beside it', async () => {
    const backend = await opened()
    await backend.join([request('spoilt:1', 'spoilt-1', 3_000)])
    const [ended] = [...backend.tickets.all()].map(({ lease }) => lease)
    await backend.cluster.call('/etcdserverpb.Lease/LeaseRevoke', leaseRequest(ended!.id), () => undefined)
    const requests = [3_000, 7_000, 3_000, 8_000].map((ttlMs, i) =>
      request(`spoilt:${i + 2}`, `spoilt-${i + 2}`, ttlMs),
    )
    const standings = await backend.join(requests)
    expect(standings.map(({ state }) => state)).toEqual(['granted', 'granted', 'granted', 'granted'])
  })

  test('a watch from a revision that was compacted away looks again', async () => {
    const backend = await opened()
    await backend.join([request('compact', 'compact-1')])
    const [line] = await backend.view('compact')
    await backend.cluster.call('/etcdserverpb.KV/Compact', compactRequest(line!.tickets[0]!.order), () => undefined)
    await new Promise<void>((resolve) => {
      backend.watches.once({ key: 'anything', deletesOnly: true }, 1n, () => resolve())
    })
  })

  test('who waits stands on a short lease, and is put under that of its hold when it is granted', async () => {
    const [locks, others] = [await client(), await client()]
    const held = await locks.lock('short').acquire({ ttl: '1h' })
    const waiting = others.lock('short').acquire({ ttl: '1h' })
    const remaining = async (): Promise<(number | undefined)[]> =>
      (await locks.view('short'))[0]?.tickets.map(({ remainingMs }) => remainingMs) ?? []
    await expect.poll(async () => (await remaining()).length, { timeout: 5_000 }).toBe(2)
    const [hold, wait] = await remaining()
    expect(hold).toBeGreaterThan(3_000_000)
    expect(wait).toBeLessThanOrEqual(5_000)
    await held.release()
    const next = await waiting
    await expect.poll(async () => (await remaining())[0] ?? 0, { timeout: 5_000 }).toBeGreaterThan(3_000_000)
    await next.release()
  })

  test('whoever gives up, wherever it stands, grants nobody but the next in line', async () => {
    const clients = [await client(), await client(), await client()]
    let holder: string | undefined
    let last = 0n
    const wrong: string[] = []
    const served = new Set<number>()
    let seed = 1
    const random = (): number => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed / 2_147_483_647
    }
    const work = async (index: number): Promise<void> => {
      for (let turn = 0; turn < 15 || !served.has(index); turn += 1) {
        const wait = turn < 15 && random() < 0.6 ? Math.ceil(random() * 40) : 20_000
        // One client in runs, one after the other, and anything between.
        const locks = clients[Math.floor(random() * random() * 3)]!
        const lease = await locks
          .lock('giving up')
          .acquire({ wait })
          .catch((error: unknown) => {
            // A wait of a moment may end before the first answer.
            if (!(error instanceof LockTimeoutError || error instanceof BackendError)) throw error
          })
        if (lease === undefined) continue
        if (holder !== undefined) wrong.push(`${index} came while ${holder} held`)
        if (lease.fence <= last) wrong.push(`fence ${lease.fence} after ${last}`)
        holder = String(index)
        last = lease.fence
        if (random() < 0.7) await new Promise((resolve) => setTimeout(resolve, random() * 15))
        served.add(index)
        holder = undefined
        await lease.release()
      }
    }
    await Promise.all(Array.from({ length: 12 }, (_, index) => work(index)))
    expect(wrong).toEqual([])
  })

  test('a waiter whose lease ends in the middle of the line grants nobody behind it', async () => {
    const [first, dead, last] = [await client(), await opened(), await client()]
    const held = await first.lock('middle').acquire({ ttl: '30s' })
    // Nobody renews these two: they end, with their client's lease, before and behind one another.
    await dead.join([request('middle', 'middle-1'), request('middle', 'middle-2')])
    const behind = last.lock('middle').acquire({ ttl: '30s' })
    const stands = async (): Promise<number> => (await first.view('middle'))[0]?.tickets.length ?? 0
    await expect.poll(stands, { timeout: 5_000 }).toBe(4)
    dead.cluster.close()
    await expect.poll(stands, { timeout: 20_000 }).toBe(2)
    const granted = await Promise.race([behind, new Promise((resolve) => setTimeout(resolve, 300))])
    expect(granted).toBeUndefined()
    expect(held.state).toBe('held')
    await held.release()
    await (await behind).release()
  })

  test('the shortest ttl is what the server says, and a shorter one is refused', async () => {
    const slow = await startEtcd({ args: ['--heartbeat-interval', '500', '--election-timeout', '3000'] })
    cleanups.push(() => slow.stop())
    const locks = await client(slow.url)
    expect(locks.guarantees.minTtlMs).toBeGreaterThan(2_000)
    await expect(locks.lock('x').acquire({ ttl: '2s' })).rejects.toThrow(String(locks.guarantees.minTtlMs))
  })

  test('a semaphore hands on by pushes, to the first who waits and to those behind it', async () => {
    const clients = [await client(), await client(), await client()]
    const gate = (index: number) => clients[index % 3]!.semaphore('gate', 3)
    let inside = 0
    let most = 0
    await Promise.all(
      Array.from({ length: 24 }, async (_, index) => {
        const permits = 1 + (index % 2)
        const lease = await gate(index).acquire({ permits })
        inside += permits
        most = Math.max(most, inside)
        await new Promise((resolve) => setTimeout(resolve, 5))
        inside -= permits
        await lease.release()
      }),
    )
    expect(most).toBeLessThanOrEqual(3)
  })

  test('a key that is no ticket of ours does not lift the limit of a semaphore', async () => {
    const [locks, backend] = [await client(), await opened()]
    for (const [index, slot] of ['x.abc.def', 'x.-5.2', 'x.0.2', 'x.1e999.2', 'x..', 'x'].entries()) {
      const name = `junk:${index}`
      const line = backend.keys.line({ kind: 'semaphore', name })
      const put = { op: 'put', key: line.key + slot, value: 'junk', lease: 0n } as const
      await runTxn(backend, { compare: [], success: [put], failure: [] })
      const taken = await Promise.all(Array.from({ length: 4 }, () => locks.semaphore(name, 2).tryAcquire()))
      expect(taken.filter((lease) => lease !== undefined).length).toBeLessThanOrEqual(1)
      const [seen] = await locks.view(name)
      expect(await locks.evict(seen!.tickets[0]!)).toBe(true)
      for (const lease of taken) await lease?.release()
      const free = [await locks.semaphore(name, 2).tryAcquire(), await locks.semaphore(name, 2).tryAcquire()]
      expect(free.map((lease) => lease?.state)).toEqual(['held', 'held'])
    }
  })

  test('a value that only looks like ours is another program’s: it is shown, waited for and evicted', async () => {
    const [locks, backend] = [await client(), await opened()]
    const holder = { owner: 'o', client: 'c', host: 'h', pid: 1 }
    const values: readonly object[] = [
      { id: 7 },
      { id: 'x', holder: null },
      { id: 'x', weight: 1, capacity: 1, holder: { owner: 5 } },
      { id: 'x', weight: '1', capacity: 1, holder },
      { id: 'x', weight: 1, capacity: 0, holder },
      { id: 'x', handle: 8, weight: 1, capacity: 1, holder },
    ]
    const { key } = backend.keys.line({ kind: 'mutex', name: 'alike' })
    for (const [index, value] of values.entries()) {
      const put = { op: 'put', key: `${key}other-${index}`, value: JSON.stringify(value), lease: 0n } as const
      await runTxn(backend, { compare: [], success: [put], failure: [] })
    }
    expect(await locks.lock('alike').tryAcquire({ owner: 'o', takeover: true })).toBeUndefined()
    const [line] = await locks.view('alike')
    expect(line?.tickets.map(({ id }) => id)).toEqual(values.map((_, index) => `other-${index}`))
    for (const ticket of line!.tickets) expect(await locks.evict(ticket)).toBe(true)
    expect(await (await locks.lock('alike').acquire()).release()).toBe(true)
  })

  test('a takeover drops what the owner left behind, and tells the earlier client', async () => {
    const [before, after] = [await client(), await client()]
    const old = await before.lock('restart').acquire({ owner: 'worker-1' })
    const fresh = await after.lock('restart').acquire({ owner: 'worker-1', takeover: true, wait: '5s' })
    expect(fresh.fence).toBeGreaterThan(old.fence)
    await expect.poll(() => old.state, { timeout: 5_000 }).toBe('lost')
    await fresh.release()
  })

  test('what the URL may say', async () => {
    await expect(connect('etcd://h?tls=yes')).rejects.toThrow('true or false')
    await expect(connect('etcd://h?ca=/x')).rejects.toThrow('tls=true')
    await expect(connect('etcd://h?servername=x')).rejects.toThrow('tls=true')
    await expect(connect('etcd://h?tls=false&servername=')).rejects.toThrow('tls=true')
    const secret = connect('etcd://:s3cret@h')
    await expect(secret).rejects.toThrow(ConfigError)
    await expect(secret).rejects.toThrow('a password but no user')
    await expect(secret).rejects.not.toThrow('s3cret')
    await expect(connect('etcd://h?tls=true&ca=/there/is/no/such/file')).rejects.toThrow('cannot be read')
    await expect(connect('etcd://h/a?prefix=b')).rejects.toThrow('one of them')
    await expect(connect('etcd://h?timeout=3')).rejects.toThrow("unknown parameter 'timeout'")
  })

  test('how long a call may take is a number of milliseconds, from 1 to 10 minutes', () => {
    for (const callTimeoutMs of [Number.NaN, 0, -5, 1.5, Number.POSITIVE_INFINITY, 600_001, 1e9, '4s' as never]) {
      expect(() => etcd({ hosts: ['h'], callTimeoutMs })).toThrow('from 1 to 600000')
    }
    for (const callTimeoutMs of [1, 600_000]) expect(etcd({ hosts: ['h'], callTimeoutMs }).name).toBe('etcd')
  })
})
