import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Cluster } from '../../src/backends/etcd/cluster.js'
import { KeyEnds } from '../../src/backends/etcd/key-ends.js'
import { readTxn, txnRequest } from '../../src/backends/etcd/txn.js'
import { Watches } from '../../src/backends/etcd/watches.js'
import { type Proxy, type Server, startEtcd, startProxy } from '../servers/index.js'

describe('the ends of keys', () => {
  let server: Server
  let proxy: Proxy
  const cleanups: (() => void)[] = []

  beforeAll(async () => {
    server = await startEtcd()
    proxy = await startProxy({ port: server.port })
  })

  afterEach(() => {
    for (const cleanup of cleanups.splice(0).toReversed()) cleanup()
  })

  afterAll(async () => {
    await proxy.stop()
    await server.stop()
  })

  function opened(): { cluster: Cluster; ends: KeyEnds; isCut: () => boolean } {
    const endpoints = [{ host: '127.0.0.1', port: proxy.port }]
    const cluster = new Cluster({ endpoints, callTimeoutMs: 4_000 }, () => undefined)
    let cuts = 0
    const watches = new Watches(cluster, () => void (cuts += 1))
    cleanups.push(() => {
      watches.close()
      cluster.close()
    })
    return { cluster, ends: new KeyEnds(watches), isCut: () => cuts > 0 }
  }

  /** Puts the key and deletes it. Returns the revision at which it ended. */
  async function comeAndGo(cluster: Cluster, key: string): Promise<bigint> {
    const put = { op: 'put', key, value: 'here', lease: 0n } as const
    let revision = 0n
    for (const op of [put, { op: 'delete', key } as const]) {
      const message = txnRequest({ compare: [], success: [op], failure: [] })
      const { header } = await cluster.call('/etcdserverpb.KV/Txn', message, readTxn)
      revision = header.revision
    }
    return revision
  }

  /** Who listens to a key, and what it heard. */
  class Ear {
    readonly begun: bigint[] = []
    readonly ended: (bigint | undefined)[] = []
    readonly stop: () => void

    constructor(ends: KeyEnds, key: string) {
      this.stop = ends.listen(key, {
        begun: (revision) => void this.begun.push(revision),
        ended: (revision) => void this.ended.push(revision),
      })
    }

    async hasBegun(): Promise<void> {
      await expect.poll(() => this.begun.length, { timeout: 10_000 }).toBe(1)
    }

    async hasHeard(revision: bigint): Promise<void> {
      await expect.poll(() => this.ended, { timeout: 10_000 }).toEqual([revision])
    }
  }

  test('all who listen are told, and a put is no end', async () => {
    const { cluster, ends } = opened()
    const ears = [new Ear(ends, 'shared'), new Ear(ends, 'shared'), new Ear(ends, 'other')]
    for (const ear of ears) await ear.hasBegun()
    const end = await comeAndGo(cluster, 'shared')
    await ears[0]!.hasHeard(end)
    await ears[1]!.hasHeard(end)
    expect(ears[2]!.ended).toEqual([])
  })

  test('who comes to a watched key knows at once from when on it is told', async () => {
    const { cluster, ends } = opened()
    const first = new Ear(ends, 'again')
    await first.hasBegun()
    const end = await comeAndGo(cluster, 'again')
    await first.hasHeard(end)
    first.stop()
    const second = new Ear(ends, 'again')
    // What ended until then it will not hear of: it may have read the key before.
    expect(second.begun).toEqual([end])
    await second.hasHeard(await comeAndGo(cluster, 'again'))
    expect(first.ended).toEqual([end])
  })

  test('what ends while nobody listens ends the watch, and the next begins a new one', async () => {
    const { cluster, ends } = opened()
    const [first, witness] = [new Ear(ends, 'idle'), new Ear(ends, 'witness')]
    await first.hasBegun()
    await witness.hasBegun()
    first.stop()
    const unheard = await comeAndGo(cluster, 'idle')
    await witness.hasHeard(await comeAndGo(cluster, 'witness'))
    const next = new Ear(ends, 'idle')
    await next.hasBegun()
    expect(next.begun[0]).toBeGreaterThan(unheard)
    await next.hasHeard(await comeAndGo(cluster, 'idle'))
  })

  test('with the stream all watches end, and who listens then is told on a new one', async () => {
    const { cluster, ends, isCut } = opened()
    const before = new Ear(ends, 'cut')
    await before.hasBegun()
    proxy.cutNow()
    await expect.poll(isCut, { timeout: 10_000 }).toBe(true)
    const after = new Ear(ends, 'cut')
    await after.hasBegun()
    await after.hasHeard(await comeAndGo(cluster, 'cut'))
    expect(before.ended).toEqual([])
  })
})
