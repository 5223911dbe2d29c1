import { connect as connectTcp, createServer, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Connection } from '../../src/backends/memcached/client/connection.js'
import { connect } from '../../src/connect.js'
import type { Holdfast, HoldfastOptions } from '../../src/core/holdfast.js'
import { type Server, startMemcached, startProxy } from '../servers/index.js'
import { ask } from '../servers/probe.js'

/** How long a trickling server may be silent, how long it is, and how much comes then: ten times the limit for all. */
const LIMIT_MS = 500
const PAUSE_MS = 100
const PIECE_BYTES = 1_000
const PIECES = 50

describe('the list of names in memcached', () => {
  let server: Server
  const closers: (() => unknown)[] = []
  beforeEach(async () => {
    server = await startMemcached()
    closers.push(() => server.stop())
  })
  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close()
  })

  async function open(url: string, options: HoldfastOptions = {}): Promise<Holdfast> {
    const locks = await connect(url, options)
    closers.push(() => locks.close())
    return locks
  }

  /** A key and a value as somebody else may store them, byte for byte. */
  async function store(key: string, value: string): Promise<void> {
    const command = Buffer.from(`set ${key} 0 0 ${value.length}\r\n${value}\r\n`, 'latin1')
    expect((await ask(server.port, command))?.toString()).toBe('STORED\r\n')
  }

  async function listed(locks: Holdfast, prefix = ''): Promise<string[]> {
    const names: string[] = []
    for await (const { name } of locks.lines(prefix)) names.push(name)
    return names.toSorted()
  }

  test('leaves out what others store, whatever bytes their keys and values are of', async () => {
    const locks = await open(server.url)
    const names = ['100%', 'caf\u00e9', "it's (mine)!*", 'plain', 'sp ace']
    for (const name of names) await locks.lock(name).acquire()
    await store('caf\xe9', 'hello')
    await store('\xff%zz', 'hello')
    await store('holdfast:line:mutex:caf\xe9', 'hello')
    await store(`holdfast:line:mutex:${'\xe9'.repeat(200)}`, 'hello')
    await store('holdfast:line:mutex:text', 'hello')
    for (const value of ['null', '7', '{}', '{"v":1}', '{"v":2}', '{"v":1,"name":7,"tickets":[],"tombstones":[]}']) {
      await store(`holdfast:line:mutex:${Buffer.from(value).toString('hex')}`, value)
    }
    expect(await listed(locks)).toEqual(names.toSorted())
    expect(await listed(locks, 'pl')).toEqual(['plain'])
  })

  test('is an error when the server does not give the lines, not a shorter list', async () => {
    const proxy = await startProxy(server)
    closers.push(() => proxy.stop())
    const locks = await open(`memcached://127.0.0.1:${proxy.port}`)
    await locks.lock('x').acquire()
    proxy.replies.rewrite = (chunk) =>
      Buffer.from(chunk.toString().replaceAll(/VA \d+[^\r]*\r\n[^\r]*\r\n/g, 'SERVER_ERROR out of memory\r\n'))
    await expect(listed(locks)).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
    await proxy.heal()
    expect(await listed(locks)).toEqual(['x'])
  })

  test('may take longer than an answer, as long as the server goes on', async () => {
    await fill()
    const relay = await startTrickle()
    const locks = await open(`memcached://127.0.0.1:${relay.port}?timeout=${LIMIT_MS}`, { callTimeout: '60s' })
    await locks.lock('x').acquire()
    expect(await listed(locks)).toEqual(['x'])
    expect(relay.pieces()).toBeGreaterThan(PIECES)
  })

  test('is an error when the server falls silent within it', async () => {
    await fill()
    const relay = await startTrickle(5)
    const connection = await Connection.open({ host: '127.0.0.1', port: relay.port }, { timeoutMs: LIMIT_MS })
    closers.push(() => connection.close())
    await expect(connection.list('lru_crawler metadump all')).rejects.toThrow(/did not answer within 500 ms/)
    expect(relay.pieces()).toBe(5)
  })

  /** So many keys that their list is of more than `PIECES` pieces. */
  async function fill(): Promise<void> {
    const connection = await Connection.open(server, { timeoutMs: 10_000 })
    const count = (PIECES * PIECE_BYTES) / 50
    await connection.send(Array.from({ length: count }, (_, index) => `ms somebody-elses-${index} 2 T0\r\nhi`))
    connection.close()
  }

  /** Leads to the server, but hands the list of keys on in small pieces, and at most so many. */
  async function startTrickle(most = Number.POSITIVE_INFINITY): Promise<{ port: number; pieces(): number }> {
    let pieces = 0
    const trickle = (list: Buffer[], to: Socket): void => {
      const bytes = Buffer.concat(list.splice(0))
      if (bytes.length === 0 || pieces >= most) return
      pieces += 1
      to.write(bytes.subarray(0, PIECE_BYTES))
      list.push(bytes.subarray(PIECE_BYTES))
    }
    const relay = createServer((client) => {
      const upstream = connectTcp(server.port, '127.0.0.1')
      const list: Buffer[] = []
      let lists = false
      client.on('data', (chunk) => {
        lists ||= chunk.includes('metadump')
        upstream.write(chunk)
      })
      upstream.on('data', (chunk) => (lists ? list.push(chunk) : client.write(chunk)))
      const timer = setInterval(() => trickle(list, client), PAUSE_MS)
      for (const [one, other] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        one.on('error', () => one.destroy())
        one.on('close', () => {
          clearInterval(timer)
          other.destroy()
        })
      }
    })
    closers.push(() => relay.close())
    await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve))
    return { port: (relay.address() as { port: number }).port, pieces: () => pieces }
  }
})
