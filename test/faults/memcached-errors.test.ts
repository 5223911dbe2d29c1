import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { memcached } from '../../src/backends/memcached/index.js'
import type { Backend } from '../../src/core/backend.js'
import { type Proxy, type Server, startMemcached, startProxy } from '../servers/index.js'

const EVENTS = { granted: vi.fn(), moved: vi.fn(), lost: vi.fn(), unsure: vi.fn() }
const REFUSAL = 'SERVER_ERROR out of memory\r\n'
const UNKNOWN = { code: 'BACKEND', retryable: true }
const FAILED = { state: 'failed', error: UNKNOWN }

const line = { kind: 'mutex', name: 'x' } as const
const lease = { line, ttlMs: 30_000, waitTtlMs: 30_000 }
const holder = { owner: 'o', client: 'c', host: 'h', pid: 1 }
const join = (id: string) => ({ ...lease, id, weight: 1, capacity: 1, wait: true, holder, takeover: false })
const renew = (id: string) => ({ ...lease, id, handle: id })
const leave = (id: string, keepMs = 0) => ({ line, id, handle: id, keepMs, tombstoneMs: 0 })

/** Refusals in the place of all values, of all that was done or not there, or of the first of those. */
const noValues = (text: string): string => text.replaceAll(/VA \d+[^\r]*\r\n[^\r]*\r\n/g, REFUSAL)
const nothingDone = (text: string): string => text.replaceAll(/^(?:HD|NF)[^\r]*\r\n/gm, REFUSAL)
const firstNotDone = (text: string): string => text.replace(/^(?:HD|NF)[^\r]*\r\n/, REFUSAL)

describe('memcached answers with an error', () => {
  let server: Server
  let proxy: Proxy
  /** Through the proxy, and not. */
  let a: Backend
  let b: Backend
  beforeEach(async () => {
    vi.clearAllMocks()
    server = await startMemcached()
    proxy = await startProxy(server)
    a = memcached({ servers: [`127.0.0.1:${proxy.port}`] })
    b = memcached({ servers: [`127.0.0.1:${server.port}`] })
    await Promise.all([a.open(EVENTS), b.open(EVENTS)])
    expect(await a.join([join('first')])).toMatchObject([{ state: 'granted' }])
  })
  afterEach(async () => {
    await Promise.all([a.close(), b.close()])
    await proxy.stop()
    await server.stop()
  })

  function refuse(rewrite: (text: string) => string): void {
    proxy.replies.rewrite = (chunk) => Buffer.from(rewrite(chunk.toString('latin1')), 'latin1')
  }

  /** Nothing was lost: who stood stands, and can do as if nothing had been. */
  async function standsAfterAll(): Promise<void> {
    expect(proxy.accepted).toBe(1)
    await proxy.heal()
    expect(EVENTS.lost).not.toHaveBeenCalled()
    expect((await b.view('x'))[0]?.tickets).toMatchObject([{ id: 'first' }])
    expect(await a.renew([renew('first')])).toMatchObject([{ state: 'granted', order: 1n }])
    expect(await a.leave([leave('first')])).toEqual([true])
  }

  test('a view is an error, not an empty line', async () => {
    refuse(noValues)
    await expect(a.view('x')).rejects.toMatchObject(UNKNOWN)
    await standsAfterAll()
  })

  test('a renewal whose line could not be read is in doubt, not lost', async () => {
    refuse(noValues)
    expect(await a.renew([renew('first')])).toMatchObject([FAILED])
    await standsAfterAll()
  })

  test('a renewal whose ticket could not be touched is in doubt, not granted', async () => {
    refuse(firstNotDone)
    expect(await a.renew([renew('first')])).toMatchObject([FAILED])
    await standsAfterAll()
  })

  test('a handover whose ticket could not be read is in doubt, not gone', async () => {
    // The line is read, the ticket is not.
    refuse((text) => (text.includes('tickets') ? text : noValues(text)))
    expect(await a.renew([{ ...renew('first'), nextHandle: 'next' }])).toMatchObject([FAILED])
    await standsAfterAll()
  })

  test('a leave that could not read the line, or delete the ticket, is an error and not a no', async () => {
    // Another stored the line since: what is remembered is no longer enough.
    expect(await b.join([join('second')])).toMatchObject([{ state: 'waiting' }])
    expect(await b.leave([leave('second')])).toEqual([true])
    refuse(noValues)
    expect(await a.leave([leave('absent')])).toMatchObject([UNKNOWN])
    expect(await a.leave([leave('first', 5_000)])).toMatchObject([UNKNOWN])
    refuse(nothingDone)
    expect(await a.leave([leave('absent')])).toMatchObject([UNKNOWN])
    await standsAfterAll()
  })

  test('a try before which nobody could be asked whether they live is an error, and drives nobody out', async () => {
    refuse((text) => text.replaceAll(/^(?:HD|EN)\r\n/gm, REFUSAL))
    expect(await a.join([{ ...join('second'), wait: false }])).toMatchObject([FAILED])
    await standsAfterAll()
  })
})
