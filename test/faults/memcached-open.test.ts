import { createServer } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { memcached } from '../../src/backends/memcached/index.js'
import { serverFor } from '../../src/backends/memcached/keys.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { type Server, startMemcached, startProxy } from '../servers/index.js'

const EVENTUALLY = { timeout: 30_000, interval: 20 }
const UNREACHABLE = { code: 'BACKEND', retryable: true }

const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function start(): Promise<Server> {
  const server = await startMemcached()
  closers.push(() => server.stop())
  return server
}

/** A client that has not asked for anything yet; closed after the test. */
function client(...ports: readonly number[]): Holdfast {
  const locks = new Holdfast(memcached({ servers: ports.map((port) => `127.0.0.1:${port}`), timeoutMs: 300 }))
  closers.push(() => locks.close())
  return locks
}

describe('memcached is away when a client opens', () => {
  test('the server is down at first: tries are errors, and the same client goes on when it is there', async () => {
    const server = await start()
    await server.kill()
    const locks = client(server.port)
    for (let tries = 0; tries < 3; tries += 1) {
      await expect(locks.lock('x').tryAcquire()).rejects.toMatchObject(UNREACHABLE)
    }
    await server.start()
    const lease = await locks.lock('x').acquire()
    // Those who wait are looked after as well.
    const waiting = locks.lock('x').acquire()
    await vi.waitFor(async () => expect((await locks.view('x'))[0]?.tickets).toHaveLength(2), EVENTUALLY)
    await lease.release()
    await (await waiting).release()
  })

  test('opens that fail again and again leave no connection behind', async () => {
    const proxy = await startProxy(await start())
    closers.push(() => proxy.stop())
    const old = createServer((socket) =>
      socket
        .resume()
        .on('error', () => {})
        .end('VERSION 1.4.25\r\n'),
    ).listen(0, '127.0.0.1')
    closers.push(async () => old.close())
    await new Promise((resolve) => old.once('listening', resolve))
    const locks = client(proxy.port, (old.address() as { port: number }).port)
    for (let tries = 0; tries < 20; tries += 1) {
      await expect(locks.ready()).rejects.toThrow(/not memcached 1\.6 or newer/)
    }
    expect(proxy.accepted).toBe(20)
    await vi.waitFor(() => expect(proxy.open).toBe(0), EVENTUALLY)
  })

  test('one of two servers is down: names on the other are had, and its own when it is back', async () => {
    const servers = [await start(), await start()]
    const [up, down] = [servers[0]!, servers[1]!]
    await down.kill()
    const locks = client(up.port, down.port)
    const names = Array.from({ length: 20 }, (_, index) => `name-${index}`)
    const on = (server: Server) => names.filter((name) => servers[serverFor(name, servers)] === server)
    for (const name of on(up)) await locks.lock(name).use(async () => {})
    for (const name of on(down)) await expect(locks.lock(name).tryAcquire()).rejects.toMatchObject(UNREACHABLE)
    expect(on(down).length).toBeGreaterThan(0)
    await down.start()
    const other = client(down.port, up.port)
    for (const name of names) {
      const lease = await vi.waitFor(async () => await locks.lock(name).acquire(), EVENTUALLY)
      expect(await other.lock(name).tryAcquire()).toBeUndefined()
      expect(await lease.release()).toBe(true)
    }
  })
})
