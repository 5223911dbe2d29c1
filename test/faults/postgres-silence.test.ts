// Connections that fall silent, one at a time: neither end is told, and what waits on one must not wait for ever.
import { createServer, connect as dialTcp, type AddressInfo, type Server as NetServer } from 'node:net'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { postgres } from '../../src/backends/postgres/index.js'
import { eventually, within } from '../../src/conformance/wait.js'
import { connect } from '../../src/connect.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { type Server, startPostgres } from '../servers/index.js'

const LONG_MS = 30_000

let server: Server
let admin: pg.Pool
const closing: { close(): Promise<void> }[] = []

beforeAll(async () => {
  server = await startPostgres({ settings: { max_connections: '60' } })
  admin = new pg.Pool({ connectionString: server.url, max: 2 })
  admin.on('error', () => undefined)
})
afterEach(async () => {
  for (const one of closing.splice(0).toReversed()) await one.close()
})
afterAll(async () => {
  await admin.end()
  await server.stop()
})

async function open(url: string): Promise<Holdfast> {
  const client = await connect(url)
  closing.push(client)
  return client
}

/** A way to the server on which single connections can be made silent: both ends stay open, and nothing passes. */
class Relay {
  /** From now on every new connection is silent from its first byte. */
  deaf = false
  /** A connection falls silent when its client sends this, which still passes; the answer does not. */
  silentAfter: string | undefined
  /** How many did. */
  silenced = 0
  /** How many connections its clients have open. */
  open = 0
  readonly #server: NetServer
  readonly #ways: { silent: boolean; said: string }[] = []
  readonly #ends = new Set<() => void>()

  constructor(port: number) {
    this.#server = createServer((client) => {
      const far = dialTcp(port, '127.0.0.1')
      const way = { silent: this.deaf, said: '' }
      this.#ways.push(way)
      this.#ends.add(() => {
        client.destroy()
        far.destroy()
      })
      client.on('error', () => undefined)
      far.on('error', () => undefined)
      client.on('data', (chunk) => {
        if (way.silent) return
        way.said = chunk.toString('latin1')
        if (this.silentAfter !== undefined && way.said.includes(this.silentAfter)) {
          way.silent = true
          this.silenced += 1
        }
        far.write(chunk)
      })
      far.on('data', (chunk) => way.silent || client.write(chunk))
      this.open += 1
      client.on('close', () => {
        this.open -= 1
        far.destroy()
      })
      far.on('close', () => way.silent || client.destroy())
    })
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return server.url.replace(`:${server.port}`, `:${(this.#server.address() as AddressInfo).port}`)
  }

  /** Those whose client said this last; all, if nothing is given. */
  silence(last = ''): void {
    for (const way of this.#ways) if (way.said.includes(last)) way.silent = true
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const end of this.#ends) end()
    await closed
  }
}

async function relay(): Promise<{ way: Relay; url: string }> {
  const way = new Relay(server.port)
  closing.push(way)
  return { way, url: await way.listen() }
}

/** The session that stands in the server's queue, and the name that all sessions of its client have. */
async function waiter(): Promise<{ pid: number; name: string }> {
  let found: { pid: number; name: string } | undefined
  await eventually('a session waits', async () => {
    const { rows } = await admin.query<{ pid: number; name: string }>(
      `SELECT l.pid, a.application_name AS name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
       WHERE l.locktype = 'advisory' AND NOT l.granted`,
    )
    found = rows[0]
    return found !== undefined
  })
  return found as unknown as { pid: number; name: string }
}

test('a session ends while another is being opened in vain: an error for who asked, no unhandled one', async () => {
  const { way, url } = await relay()
  const near = await open(`${server.url}?mode=session`)
  const far = await open(`${url}?mode=session`)
  const held = await near.lock('two').acquire()
  const waiting = far.lock('two').acquire()
  const { pid, name } = await waiter()
  way.deaf = true
  // The one that tries goes first, and its successor is being opened when the one that waits goes.
  await admin.query(
    'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND pid <> $2',
    [name, pid],
  )
  const other = far
    .lock('other')
    .acquire({ wait: 6_000 })
    .catch((error: unknown) => error)
  await admin.query('SELECT pg_sleep(0.3), pg_terminate_backend($1)', [pid])
  expect(await within('told', other)).toBeInstanceOf(Error)
  way.deaf = false
  await held.release()
  await (await within('served once the way is open', waiting, LONG_MS)).release()
})

test.each(['lease', 'session'] as const)(
  'connections of a function that listens to no error may be lost while idle (%s mode)',
  async (mode) => {
    const dial = async () => {
      const client = new pg.Client(server.url)
      await client.connect()
      return client
    }
    const locks = new Holdfast(postgres(dial, { mode }))
    closing.push(locks)
    await locks.lock('idle').use(async () => {})
    await admin.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
    )
    await within(
      'served',
      locks
        .lock('idle')
        .acquire({ wait: LONG_MS })
        .then((lease) => lease.release()),
      LONG_MS,
    )
  },
)

test.each([
  ['lease', 'leave_one_1'],
  ['session', 'pg_advisory_unlock'],
])(
  'a release on a connection that falls silent is answered on another, in the call’s own time (%s mode)',
  async (mode, sql) => {
    const { way, url } = await relay()
    const locks = await open(`${url}?mode=${mode}`)
    const held = await locks.lock('silent').acquire()
    way.silentAfter = sql
    // The first may have reached the server: what counts is that it is not left unknown.
    const released = within('answered', held.release(), LONG_MS)
    await eventually('it is silent', () => way.silenced > 0)
    way.silentAfter = undefined
    expect(await released).toBeTypeOf('boolean')
    await (await within('free', locks.lock('silent').acquire(), LONG_MS)).release()
  },
)

test('a connection that falls silent in its first statement takes no slot with it', async () => {
  const { way, url } = await relay()
  const locks = await open(url)
  const held = await locks.lock('slot').acquire({ ttl: 60_000 })
  await held.renew()
  way.silentAfter = 'SET '
  // The one connection for renewals is made anew, and its first statement is never answered.
  await admin.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
  )
  await within('an answer', Promise.allSettled([held.renew()]), LONG_MS)
  way.silentAfter = undefined
  await eventually(
    'renewed',
    async () =>
      await held.renew().then(
        () => true,
        () => false,
      ),
    LONG_MS,
  )
  await held.release()
})

test.each([
  ['the check of the server', 'server_version_num'],
  ['the settings of a session', 'SET statement_timeout'],
  ['LISTEN', 'LISTEN '],
])('%s is not answered: the open fails, and the next is well', async (_, statement) => {
  const { way, url } = await relay()
  way.silentAfter = statement
  await expect(within('an answer', connect(`${url}?mode=session`), LONG_MS)).rejects.toMatchObject({
    code: 'BACKEND',
    retryable: true,
  })
  way.silentAfter = undefined
  await (await open(`${url}?mode=session`)).lock('open').use(async () => {})
})

test('several hosts: one that is silent when asked whether it takes writes is let go, and the next is used', async () => {
  const { way, url } = await relay()
  way.silentAfter = 'pg_is_in_recovery'
  const [, host] = /@([^/]+)/.exec(url) ?? []
  const locks = await open(`${server.url.replace('@', `@${host},`)}?listen=false`)
  await within(
    'served',
    locks.lock('hosts').use(async () => {}),
    LONG_MS,
  )
  await eventually('none is left open', () => way.open === 0)
})

test('a holder that is cut off is ended after its own ttl, whatever ttl it had before', async () => {
  const { way, url } = await relay()
  const [near, far] = [await open(`${server.url}?mode=session`), await open(`${url}?mode=session`)]
  await far.lock('long').use(async () => {}, { ttl: '1h' })
  await far.lock('short').acquire({ ttl: 2_000 })
  // Asked on the same session: what was sent before it has arrived.
  await far.lock('beside').acquire({ ttl: 2_000 })
  way.silence()
  await (await within('the next is served', near.lock('short').acquire(), LONG_MS)).release()
})

test('a ttl beyond what the server can be told is held at once, and a shorter one beside it takes nothing from it', async () => {
  const locks = await open(`${server.url}?mode=session`)
  await locks.lock('short').use(async () => {}, { ttl: 1_000 })
  const held = await locks.lock('a month').acquire({ ttl: '720h' })
  await locks.lock('short').use(async () => {}, { ttl: 1_000 })
  await admin.query('SELECT pg_sleep(3)')
  expect(held.state).toBe('held')
  expect(await held.release()).toBe(true)
})

test.each([
  ['before it has the lock', false],
  ['when it has the lock', true],
])(
  'a session that waits is cut off silently, %s, and ended by the server: the wait begins anew',
  async (_, granted) => {
    const { way, url } = await relay()
    const [near, far] = [await open(`${server.url}?mode=session`), await open(`${url}?mode=session`)]
    const held = await near.lock('hole').acquire()
    const waiting = far.lock('hole').acquire()
    const { pid } = await waiter()
    way.silence('pg_advisory_lock(')
    if (granted) await held.release()
    // As the server's keepalives do a while later.
    await admin.query('SELECT pg_terminate_backend($1)', [pid])
    if (!granted) await held.release()
    await (await within('served', waiting, LONG_MS)).release()
  },
)
