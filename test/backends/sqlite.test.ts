import { randomUUID } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'libsql'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { memory } from '../../src/backends/memory/index.js'
import { sqlite } from '../../src/backends/sqlite/index.js'
import { CLOCK, now, SELF } from '../../src/backends/sqlite/process.js'
import type { Backend, JoinRequest, LeaveRequest, RenewRequest, Standing } from '../../src/core/backend.js'
import { BackendError } from '../../src/core/errors.js'
import { Holdfast } from '../../src/core/holdfast.js'
import type { Kind } from '../../src/core/line.js'
import { describeBackend } from '../suite.js'

describeBackend('sqlite', sqlite('unused').guarantees, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
  return { url: `sqlite:${join(folder, 'locks.db')}`, stop: async () => rmSync(folder, { recursive: true }) }
})

let folder: string
let path: string
let opened: Backend[] = []
const events: [what: string, id: string][] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
  path = join(folder, 'locks.db')
  events.length = 0
})

afterEach(async () => {
  vi.useRealTimers()
  for (const backend of opened) await backend.close()
  opened = []
  rmSync(folder, { recursive: true, force: true })
})

async function open(backend: Backend = sqlite(path)): Promise<Backend> {
  await backend.open({
    granted: (id) => void events.push(['granted', id]),
    lost: (ids) => void events.push(...ids.map((id): [string, string] => ['lost', id])),
    moved: () => {},
    unsure: () => {},
  })
  opened.push(backend)
  return backend
}

type More = Partial<Omit<JoinRequest, 'line'>> & { readonly kind?: Kind }

function request(name: string, { kind = 'mutex', ...more }: More = {}): JoinRequest {
  const holder = { owner: 'test', client: 'test', host: 'here', pid: process.pid }
  const usual = { weight: 1, capacity: 1, wait: true, ttlMs: 60_000, waitTtlMs: 60_000, holder, takeover: false }
  return { line: { kind, name }, id: randomUUID(), ...usual, ...more }
}

async function joined(backend: Backend, one: JoinRequest): Promise<Standing> {
  return (await backend.join([one]))[0]!
}

async function orderOf(backend: Backend, one: JoinRequest): Promise<bigint> {
  const standing = await joined(backend, one)
  if (standing.state !== 'granted') throw new Error(`not granted but ${standing.state}`)
  return standing.order
}

function leaving({ line, id }: JoinRequest, more: Partial<LeaveRequest> = {}): LeaveRequest {
  return { line, id, handle: id, keepMs: 0, tombstoneMs: 0, ...more }
}

function renewing({ line, id, ttlMs, waitTtlMs }: JoinRequest, more: Partial<RenewRequest> = {}): RenewRequest {
  return { line, id, handle: id, ttlMs, waitTtlMs, ...more }
}

/** Looks into the file, or changes it, behind the backend's back. */
function sql<T = unknown>(text: string, ...values: (string | number)[]): T[] {
  const db = new Database(path, { timeout: 5_000 })
  try {
    const statement = db.prepare(text)
    if (statement.reader) return statement.all(...values) as T[]
    statement.run(...values)
    return []
  } finally {
    db.close()
  }
}

function rows(table: string): number {
  return sql<{ count: number }>(`SELECT count(*) AS count FROM ${table}`)[0]!.count
}

/** Puts a ticket of somebody else at the end of a line. */
function plant(
  line: string,
  { clock, until, ttl, inbox }: { clock: string; until: number; ttl: number; inbox: string },
): string {
  const id = randomUUID()
  const holder = '{"owner":"other","client":"other","host":"there","pid":1}'
  sql('INSERT INTO clients (inbox, holder) VALUES (?, ?)', inbox, holder)
  sql(
    `INSERT INTO tickets (id, line, weight, capacity, ttl, until, clock, joined, queued, client)
    VALUES (?, ?, 1, 1, ?, ?, ?, 0, 1, (SELECT max(key) FROM clients))`,
    id,
    line,
    ttl,
    until,
    clock,
  )
  return id
}

const OTHER_BOOT = 'ffffffffffff'
const [, space] = SELF.split('.')

async function eventually(what: () => boolean | Promise<boolean>): Promise<void> {
  await vi.waitUntil(what, { timeout: 15_000, interval: 20 })
}

describe('the order', () => {
  test('is never given twice, not even when every ticket left and every client closed', async () => {
    const first = await open()
    const ticket = request('x')
    const order = await orderOf(first, ticket)
    await first.leave([leaving(ticket)])
    await first.close()
    opened = []
    expect(await orderOf(await open(), request('x'))).toBeGreaterThan(order)
  })

  test('jumps on a new boot, since a power cut may have lost the last ones given', async () => {
    const first = await open()
    const order = await orderOf(first, request('x'))
    sql("UPDATE facts SET value = ? WHERE name = 'boot'", OTHER_BOOT)
    expect(await orderOf(await open(), request('y'))).toBeGreaterThan(order + 999_999_999n)
  })
})

describe('a ticket of another boot', () => {
  test('stands for one ttl from when it was first seen, whatever its own clock says', async () => {
    const first = await open()
    plant('mutex:x', { clock: OTHER_BOOT, until: 1, ttl: 1_000, inbox: `${OTHER_BOOT}.${space}.1.1.aa` })
    const from = now()
    expect((await joined(first, request('x', { wait: false }))).state).toBe('refused')
    // Seen once is seen by all: each look by another client must not start it anew.
    const second = await open()
    await eventually(async () => (await joined(second, request('x', { wait: false }))).state === 'granted')
    expect(now() - from).toBeGreaterThanOrEqual(1_000)
  })

  test('stands on while its own kernel renews it', async () => {
    const backend = await open()
    const id = plant('mutex:x', { clock: OTHER_BOOT, until: 1, ttl: 1_000, inbox: `${OTHER_BOOT}.${space}.1.1.aa` })
    const waiting = request('x')
    await joined(backend, waiting)
    for (let i = 0; i < 5; i += 1) {
      await new Promise((resolve) => setTimeout(resolve, 400))
      sql('UPDATE tickets SET clock = ?, until = 1 WHERE id = ?', OTHER_BOOT, id)
      expect((await backend.renew([renewing(waiting)]))[0]).toMatchObject({ state: 'waiting', ahead: 1 })
    }
  })
})

describe('a ticket whose process is gone', () => {
  test('is dropped at once when its pid was given to another process', async () => {
    const backend = await open()
    plant('mutex:x', {
      clock: CLOCK,
      until: now() + 60_000,
      ttl: 60_000,
      inbox: `${CLOCK}.${space}.${process.pid}.7.aa`,
    })
    expect((await joined(backend, request('x', { wait: false }))).state).toBe('granted')
  })

  test('stands when it is of another container: the pid says nothing here', async () => {
    const backend = await open()
    plant('mutex:x', { clock: CLOCK, until: now() + 60_000, ttl: 60_000, inbox: `${CLOCK}.77.4000000.7.aa` })
    expect((await joined(backend, request('x', { wait: false }))).state).toBe('refused')
  })

  test('is passed over when its turn comes', async () => {
    const backend = await open()
    const holder = request('x')
    await joined(backend, holder)
    plant('mutex:x', {
      clock: CLOCK,
      until: now() + 60_000,
      ttl: 60_000,
      inbox: `${CLOCK}.${space}.${process.pid}.7.aa`,
    })
    const waiting = request('x')
    expect((await joined(backend, waiting)).state).toBe('waiting')
    await backend.leave([leaving(holder)])
    expect(events).toEqual([['granted', waiting.id]])
    expect(rows('tickets')).toBe(1)
  })
})

test('no step of the wall clock matters', async () => {
  const backend = await open()
  const held = request('x', { ttlMs: 2_000 })
  await joined(backend, held)
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 86_400_000 })
  expect((await joined(backend, request('x', { wait: false }))).state).toBe('refused')
  expect((await backend.renew([renewing(held)]))[0]!.state).toBe('granted')
  vi.setSystemTime(1_000)
  await eventually(async () => (await joined(backend, request('x', { wait: false }))).state === 'granted')
})

describe('the inbox', () => {
  test('wakes exactly the next client, without a look of its own', async () => {
    const [first, second, third] = [await open(), await open(), await open()]
    const [holder, next, last] = [request('x'), request('x'), request('x')]
    await joined(first, holder)
    await joined(second, next)
    await joined(third, last)
    await first.leave([leaving(holder)])
    await eventually(() => events.length > 0)
    expect(events).toEqual([['granted', next.id]])
  })

  test('tells whom somebody evicted', async () => {
    const [first, second] = [await open(), await open()]
    const held = request('x')
    await joined(first, held)
    expect(await second.leave([{ line: held.line, id: held.id, keepMs: 0, tombstoneMs: 0 }])).toEqual([true])
    await eventually(() => events.length > 0)
    expect(events).toEqual([['lost', held.id]])
  })

  test('is emptied when it has grown, and still read', async () => {
    const [first, second] = [await open(), await open()]
    const inbox = join(
      `${path}-inbox`,
      readdirSync(`${path}-inbox`).find((name) => existsSync(join(`${path}-inbox`, name)))!,
    )
    for (let i = 0; i < 12; i += 1) {
      writeFileSync(inbox, 'x'.repeat(9_999).concat('\n'), { flag: 'a' })
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await eventually(() => statSync(inbox).size < 64 * 1024)
    for (const [holder, waiter] of [
      [first, second],
      [second, first],
    ] as const) {
      const [held, waiting] = [request('x'), request('x')]
      await joined(holder, held)
      await joined(waiter, waiting)
      await holder.leave([leaving(held)])
      await eventually(() => events.some(([, id]) => id === waiting.id))
      await waiter.leave([leaving(waiting)])
    }
  })

  test('is gone when its client closed, and was never more than a hint', async () => {
    writeFileSync(`${path}-inbox`, 'a file where the directory would be')
    const [first, second] = [await open(), await open()]
    const [held, waiting] = [request('x'), request('x')]
    await joined(first, held)
    const standing = await joined(second, waiting)
    expect(standing).toMatchObject({ state: 'waiting', ahead: 1 })
    expect(standing.state === 'waiting' && standing.lookAgainMs).toBeLessThan(100)
    await first.leave([leaving(held)])
    expect((await second.renew([renewing(waiting)]))[0]!.state).toBe('granted')

    path = join(folder, 'other.db')
    const third = await open()
    expect(readdirSync(`${path}-inbox`)).toHaveLength(1)
    await third.close()
    expect(readdirSync(`${path}-inbox`)).toHaveLength(0)
  })
})

test('those who wait first look soonest, and far back hardly ever', async () => {
  const [first, second] = [await open(), await open()]
  await joined(first, request('x'))
  const waiting = Array.from({ length: 100 }, () => request('x'))
  const looks = (await second.join(waiting)).map((one) => (one.state === 'waiting' ? one.lookAgainMs : Number.NaN))
  expect(looks[0]).toBeLessThanOrEqual(500)
  expect(looks[99]).toBeGreaterThan(10_000)
  const places = (await second.renew(waiting.toReversed().map((one) => renewing(one)))).map((one) =>
    one.state === 'waiting' ? one.ahead : Number.NaN,
  )
  expect(places).toEqual(Array.from({ length: 100 }, (_, i) => 100 - i))
})

test('idle lines leave nothing behind', async () => {
  const backend = await open()
  const tickets = Array.from({ length: 20 }, (_, i) => request(`x${i % 10}`, { ttlMs: 300 }))
  await backend.join(tickets)
  await backend.leave(tickets.slice(0, 10).map((one) => leaving(one, { tombstoneMs: 300 })))
  // Nobody ever looks at those lines again.
  await eventually(async () => {
    await backend.view('unrelated')
    return rows('tickets') === 10 && rows('tombstones') === 0
  })
  await backend.leave(tickets.slice(10).map((one) => leaving(one)))
  expect(rows('tickets')).toBe(0)
  await backend.close()
  opened = []
  expect(rows('clients')).toBe(0)
})

test('a line longer than what is read at once: many hold, many wait, and the next is granted', async () => {
  const backend = await open()
  const tickets = Array.from({ length: 700 }, () => request('x', { kind: 'semaphore', capacity: 600 }))
  const answers = [...(await backend.join(tickets.slice(0, 400))), ...(await backend.join(tickets.slice(400)))]
  expect(answers.filter((one) => one.state === 'granted')).toHaveLength(600)
  expect(answers[699]).toMatchObject({ state: 'waiting', ahead: 699 })
  await backend.leave([leaving(tickets[3]!), leaving(tickets[598]!)])
  expect(events.map(([, id]) => id)).toEqual([tickets[600]!.id, tickets[601]!.id])
})

describe('answers like the memory store', () => {
  const seeds = Array.from({ length: 8 }, (_, i) => i + 1)
  test.each(seeds)('for random calls, seed %i', async (seed) => {
    const pick = random(seed)
    const backends = [await open(), await open(memory())] as const
    const known: JoinRequest[] = []
    const ranks = [new Map<bigint, number>(), new Map<bigint, number>()]
    for (let step = 0; step < 150; step += 1) {
      const some = known.filter(() => pick(6) === 0)
      const call = pick(4)
      const make = (backend: Backend): Promise<readonly unknown[]> => {
        if (call === 0) return backend.leave(some.map((one) => leaving(one)))
        if (call === 1) return backend.renew(some.map((one) => renewing(one)))
        return backend.join(fresh)
      }
      const group = pick(3) === 0 ? `group ${step}` : undefined
      const fresh = group === undefined ? anyOf(pick) : groupOf(pick, group)
      if (call > 1) known.push(...fresh)
      const [ours, theirs] = await Promise.all(backends.map(make))
      expect(ours!.map((one) => essence(one, ranks[0]!))).toEqual(theirs!.map((one) => essence(one, ranks[1]!)))
    }
  })

  function anyOf(pick: (below: number) => number): JoinRequest[] {
    return Array.from({ length: 1 + pick(5) }, () => {
      const capacity = 1 + pick(4)
      const kind = capacity === 1 ? 'mutex' : 'semaphore'
      return request(`n${pick(4)}`, { kind, capacity, weight: 1 + pick(capacity), wait: pick(3) > 0 })
    })
  }

  function groupOf(pick: (below: number) => number, group: string): JoinRequest[] {
    return ['n0', 'n1', 'n2'].slice(pick(2)).map((name) => request(name, { group, wait: false }))
  }

  // Orders are numbers of each store's own: what counts is which ticket got which.
  function essence(answer: unknown, ranks: Map<bigint, number>): unknown {
    if (typeof answer === 'boolean') return answer
    const standing = answer as Standing
    if (standing.state !== 'granted') return standing.state
    if (!ranks.has(standing.order)) ranks.set(standing.order, ranks.size)
    return `granted ${ranks.get(standing.order)}`
  }

  /** A small generator that gives the same numbers for the same seed. */
  function random(seed: number): (below: number) => number {
    let state = seed
    return (below) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      return Math.floor((state / 2 ** 32) * below)
    }
  }
})

describe('the file', () => {
  const mode = (file: string): string => (statSync(file).mode & 0o777).toString(8)

  test('is for its owner alone, with all that is made beside it, whatever the umask', async () => {
    const umask = process.umask(0)
    try {
      await joined(await open(), request('x'))
    } finally {
      process.umask(umask)
    }
    const files = readdirSync(folder).filter((name) => !name.endsWith('-inbox'))
    expect(files.sort()).toEqual(['locks.db', 'locks.db-shm', 'locks.db-wal'])
    for (const name of files) expect([name, mode(join(folder, name))]).toEqual([name, '600'])
    expect(mode(`${path}-inbox`)).toBe('700')
    for (const name of readdirSync(`${path}-inbox`)) expect(mode(join(`${path}-inbox`, name))).toBe('600')
  })

  test('made for a group beforehand, stays for the group', async () => {
    writeFileSync(path, '')
    chmodSync(path, 0o660)
    await open()
    expect([mode(path), mode(`${path}-inbox`)]).toEqual(['660', '770'])
    for (const name of readdirSync(`${path}-inbox`)) expect(mode(join(`${path}-inbox`, name))).toBe('660')
  })

  const refused = async (text: RegExp): Promise<void> => {
    const error: unknown = await open().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(BackendError)
    expect(error).toMatchObject({ code: 'BACKEND', retryable: false, message: expect.stringMatching(text) })
  }

  test('a directory is refused by name', async () => {
    mkdirSync(path)
    await refused(/is a directory\. Name a file in it/)
  })

  test('a missing directory is not made, but named', async () => {
    path = join(folder, 'none', 'locks.db')
    await refused(/directory .*none does not exist\. Make it first/)
  })

  test('a file that is no database is refused', async () => {
    writeFileSync(path, 'a text that is longer than the header of a database would be. '.repeat(40))
    await refused(/not a SQLite database/)
  })

  test('the database of another program is refused, and left as it was', async () => {
    sql('CREATE TABLE theirs (a)')
    await refused(/database of another program/)
    expect(sql("SELECT name FROM sqlite_master WHERE type = 'table'")).toHaveLength(1)
  })

  test('the file of a newer version is refused', async () => {
    await (await open()).close()
    opened = []
    sql('PRAGMA user_version = 99')
    await refused(/newer Holdfast \(schema 99, this one knows 1\)/)
  })

  test('a corrupt one is refused, or fails the call, and says what to do', async () => {
    const first = await open()
    await first.join(Array.from({ length: 200 }, (_, i) => request(`x${i}`)))
    await first.close()
    opened = []
    sql('PRAGMA wal_checkpoint(TRUNCATE)')
    // All but the first page, so that it still looks like a database.
    const fd = openSync(path, 'r+')
    writeSync(fd, Buffer.alloc(statSync(path).size - 1_024, 0x5a), 0, undefined, 1_024)
    closeSync(fd)
    const work = open().then((backend) => backend.view('x1'))
    await expect(work).rejects.toMatchObject({
      retryable: false,
      message: expect.stringMatching(/not a SQLite|corrupt/),
    })
  })

  test('one that another connection keeps locked is a retryable error, soon, and works again afterwards', async () => {
    const backend = await open()
    const db = new Database(path)
    db.exec('BEGIN IMMEDIATE')
    let turns = 0
    const timer = setInterval(() => (turns += 1), 1)
    await expect(backend.join([request('x')])).rejects.toMatchObject({
      code: 'BACKEND',
      retryable: true,
      message: expect.stringMatching(/keeps the file locked/),
    })
    clearInterval(timer)
    // The event loop went on meanwhile.
    expect(turns).toBeGreaterThan(0)
    db.exec('ROLLBACK')
    db.close()
    expect((await joined(backend, request('x'))).state).toBe('granted')
  })

  test('deleted while in use, it does not go on as if nothing had happened', async () => {
    const backend = await open()
    await joined(backend, request('x'))
    const locks = new Holdfast(sqlite(path))
    await (await locks.lock('before').acquire()).release()
    rmSync(path)
    const other = await open()
    await joined(other, request('y'))
    const refused = { retryable: false, message: expect.stringMatching(/deleted or replaced/) }
    // Not the first time, nor ever after: others hold by the new file.
    for (let i = 0; i < 3; i += 1) await expect(backend.join([request('y')])).rejects.toMatchObject(refused)
    const both = await Promise.allSettled([locks.lock('y').tryAcquire(), locks.lock('z').tryAcquire()])
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    await locks.close()
  })
})
