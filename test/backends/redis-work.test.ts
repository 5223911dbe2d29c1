import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Keys } from '../../src/backends/redis/keys.js'
import { openPort } from '../../src/conformance/port.js'
import type { Port } from '../../src/conformance/case.js'
import { eventually } from '../../src/conformance/wait.js'
import { openBackend } from '../../src/connect.js'
import { KINDS, type Kind, type LineKey, RW_CAPACITY } from '../../src/core/line.js'
import { type Server, startRedis } from '../servers/index.js'

/** How much one script does, counted in commands: some 750 of them take a millisecond on an idle machine. */

const MOST_COMMANDS = 1_000
const LONG = { ttlMs: 600_000, waitTtlMs: 600_000 }

let server: Server
let raw: Redis
let port: Port
beforeAll(async () => {
  server = await startRedis()
  raw = new Redis(server.url)
})
afterAll(async () => {
  raw.disconnect()
  await server.stop()
})
beforeEach(async () => {
  await raw.flushall()
  port = await openPort(await openBackend(server.url), randomUUID().slice(0, 23))
  return () => port.backend.close()
})

/** What each script that ran meanwhile did. */
async function workOf(fn: () => Promise<unknown>): Promise<number[]> {
  const monitor = await raw.monitor()
  const scripts: number[] = []
  const marker = randomUUID()
  const ended = new Promise<void>((resolve) => {
    // A script is told of before what it does.
    monitor.on('monitor', (_time: string, args: string[], source: string) => {
      if (source === 'lua') scripts[scripts.length - 1]! += 1
      else if (/^eval/i.test(args[0]!)) scripts.push(0)
      else if (args.includes(marker)) resolve()
    })
  })
  await fn()
  await raw.ping(marker)
  await ended
  monitor.disconnect()
  // It tells of more until it is gone.
  return [...scripts]
}

/** Weight and capacity with which one excludes the next. */
function alone(kind: Kind): { weight: number; capacity: number } {
  return kind === 'rw' ? { weight: RW_CAPACITY, capacity: RW_CAPACITY } : { weight: 1, capacity: 1 }
}

const ids = (count: number, from = 0): string[] => Array.from({ length: count }, (_, i) => `t${from + i}`)

/** Stands in line behind a holder 'h', 250 in a call. */
async function fill(line: LineKey, count: number): Promise<void> {
  const { backend, join } = port
  await backend.join([join(line, 'h', { ...LONG, ...alone(line.kind) })])
  for (let from = 0; from < count; from += 250) {
    await backend.join(
      ids(Math.min(250, count - from), from).map((id) => join(line, id, { ...LONG, ...alone(line.kind) })),
    )
  }
}

/** The leases of all who stand there, the holder of a mutex aside, ended long ago. */
async function die(line: LineKey, ...living: string[]): Promise<void> {
  const { lease } = new Keys('holdfast:', '', false).of(line)
  const script = "for _, id in ipairs(redis.call('ZRANGE',KEYS[1],0,-1)) do redis.call('ZADD',KEYS[1],1,id) end"
  const scores = await Promise.all(living.map((id) => raw.zscore(lease, port.tag(id))))
  await raw.eval(script, 1, lease)
  for (const [i, score] of scores.entries()) if (score !== null) await raw.zadd(lease, score, port.tag(living[i]!))
}

async function granted(line: LineKey, id: string): Promise<void> {
  const end = performance.now() + 30_000
  for (;;) {
    const [standing] = await port.backend.renew([port.renew(line, id, LONG)])
    if (standing!.state === 'granted') return
    if (performance.now() > end) throw new Error(`${id} is ${standing!.state} after 30 s`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

describe.each(KINDS.map((kind) => ({ kind })))('one script, $kind', ({ kind }) => {
  test('250 lines joined, renewed and left in one call each', async () => {
    const { backend, join, renew, leave } = port
    const lines = ids(250).map((name): LineKey => ({ kind, name }))
    const work = await workOf(async () => {
      await backend.join(lines.map((line, i) => join(line, `t${i}`, { ...LONG, ...alone(kind) })))
      const standings = await backend.renew(lines.map((line, i) => renew(line, `t${i}`, { ...LONG, order: 1n })))
      expect(standings.every(({ state }) => state === 'granted')).toBe(true)
      expect(await backend.leave(lines.map((line, i) => leave(line, `t${i}`)))).toEqual(lines.map(() => true))
    })
    expect(Math.max(...work)).toBeLessThan(MOST_COMMANDS)
  })

  test('250 waiters of one line joined, renewed and left in one call each, with 2,500 waiting', async () => {
    const { backend, renew, leave } = port
    const line = { kind, name: 'long' }
    const work = await workOf(async () => {
      await fill(line, 2_500)
      await backend.renew(ids(250).map((id) => renew(line, id, LONG)))
      // The holder and the next 249: each grants the one behind it.
      await backend.leave(['h', ...ids(249)].map((id) => leave(line, id)))
      await granted(line, 't249')
    })
    expect(Math.max(...work)).toBeLessThan(MOST_COMMANDS)
  })

  test('2,500 dead before the next, who is served all the same', async () => {
    const { backend, leave } = port
    const line = { kind, name: 'graves' }
    await fill(line, 2_500)
    await die(line, 'h', 't2499')
    const work = await workOf(async () => {
      await backend.leave([leave(line, 'h')])
      await granted(line, 't2499')
    })
    expect(Math.max(...work)).toBeLessThan(MOST_COMMANDS)
  })

  test('250 renewals in one call for a line with 2,500 dead: the dead are not all cleared by the first script', async () => {
    const { backend, renew } = port
    const line = { kind, name: 'renewed' }
    await fill(line, 2_500)
    await die(line, 'h')
    const work = await workOf(async () => {
      const standings = await backend.renew(ids(250, 2_250).map((id) => renew(line, id, LONG)))
      expect(standings.every(({ state }) => state === 'gone')).toBe(true)
    })
    expect(Math.max(...work)).toBeLessThan(MOST_COMMANDS)
  })

  test('a try behind 2,500 dead is no try behind somebody, alone or in a group', async () => {
    const { backend, join, leave } = port
    const [line, other] = [{ kind, name: 'tried' } as const, { kind, name: 'beside' } as const]
    const alive = { ...LONG, ...alone(kind), wait: false }
    for (const group of [undefined, 'g']) {
      await fill(line, 2_500)
      await die(line)
      if (kind === 'mutex') await raw.del('holdfast:tried')
      const work = await workOf(async () => {
        const asked = [line, other].map((one) => join(one, `try-${group}`, { ...alive, group }))
        const standings = await backend.join(group === undefined ? asked.slice(0, 1) : asked)
        expect(standings.map(({ state }) => state)).toEqual(asked.slice(0, standings.length).map(() => 'granted'))
        await backend.leave(asked.slice(0, standings.length).map(({ line: one }) => leave(one, `try-${group}`)))
      })
      expect(Math.max(...work)).toBeLessThan(MOST_COMMANDS)
    }
  })

  test('60 lines left in one call, each with 250 dead before the next', async () => {
    const { backend, leave } = port
    const lines = ids(60).map((name): LineKey => ({ kind, name }))
    for (const line of lines) {
      await fill(line, 250)
      await die(line, 'h', 't249')
    }
    const work = await workOf(async () => {
      expect(await backend.leave(lines.map((line) => leave(line, 'h')))).toEqual(lines.map(() => true))
      for (const line of lines) await granted(line, 't249')
    })
    expect(Math.max(...work)).toBeLessThan(MOST_COMMANDS)
  })
})

test('one script, readers: 1,000 of them behind a writer are granted by several', async () => {
  const { backend, heard, join, leave } = port
  const line = { kind: 'rw', name: 'crowd' } as const
  await backend.join([join(line, 'h', { ...LONG, ...alone('rw') })])
  for (let from = 0; from < 1_000; from += 250) {
    await backend.join(ids(250, from).map((id) => join(line, id, { ...LONG, capacity: RW_CAPACITY })))
  }
  const work = await workOf(async () => {
    await backend.leave([leave(line, 'h')])
    await granted(line, 't999')
  })
  expect(Math.max(...work)).toBeLessThan(MOST_COMMANDS)
  await expect.poll(() => heard.grantedIds.length, { timeout: 30_000 }).toBe(1_000)
})

describe('the short way, for a mutex that nobody stands in line for', () => {
  const line: LineKey = { kind: 'mutex', name: 'short' }
  const state = (standings: readonly { state: string }[]): string[] => standings.map((standing) => standing.state)

  test('one script takes it, one lets it go, and a try that finds it held is told by the first', async () => {
    const { backend, join, leave } = port
    const pair = async (id: string): Promise<void> => {
      await backend.join([join(line, id)])
      await backend.leave([leave(line, id)])
    }
    // A script that the server does not know yet is asked for twice.
    await pair('first')
    const work = await workOf(async () => {
      expect(state(await backend.join([join(line, 'a')]))).toEqual(['granted'])
      expect(state(await backend.join([join(line, 'b', { wait: false })]))).toEqual(['refused'])
      await backend.leave([leave(line, 'a')])
    })
    expect(work).toHaveLength(3)
  })

  test('who finds it held goes the long way, and knows the line for crowded until it was found free', async () => {
    const { backend, join, leave } = port
    await backend.join([join(line, 'a')])
    const first = await workOf(() => backend.join([join(line, 'b')]))
    const second = await workOf(() => backend.join([join(line, 'c')]))
    await backend.leave([leave(line, 'a'), leave(line, 'b'), leave(line, 'c')])
    const third = await workOf(() => backend.join([join(line, 'd')]))
    await backend.leave([leave(line, 'd')])
    const fourth = await workOf(() => backend.join([join(line, 'e')]))
    expect([first, second, third, fourth].map(({ length }) => length)).toEqual([2, 1, 1, 1])
    // EXISTS, TIME, the last order, the ticket.
    expect(fourth).toEqual([4])
  })

  test('the first that waits tells the holder’s client, whose leave then grants the next by one script', async () => {
    const { backend, join, leave, heard } = port
    const gate: LineKey = { kind: 'mutex', name: 'gate' }
    const other = await openPort(await openBackend(server.url), 'other')
    await other.backend.join([other.join(gate, 'g')])
    await backend.join([join(gate, 'g'), join(line, 'a')])
    const told: string[] = []
    const ear = raw.duplicate()
    ear.on('pmessage', (_pattern, _channel, message: string) => told.push(message))
    await ear.psubscribe('holdfast:inbox:*')
    await other.backend.join(['b', 'c'].map((id) => other.join(line, id)))
    // One inbox hears in order: with this grant also that somebody waits, and once only.
    await other.backend.leave([other.leave(gate, 'g')])
    await eventually('the grant at the gate', () => heard.grantedIds.includes('g'))
    await eventually('what was told', () => told.length >= 2)
    expect(told.map((message) => message.split(' ', 1)[0])).toEqual(['c', 'g'])
    expect(await workOf(() => backend.leave([leave(line, 'a')]))).toHaveLength(1)
    await eventually('the grant', () => other.heard.grantedIds.includes('b'))
    await other.backend.close()
    ear.disconnect()
  })

  test('a leave that did not know of others finds them, and is made in line', async () => {
    const { backend, join, leave } = port
    const lines = ['x', 'y', 'z'].map((name): LineKey => ({ kind: 'mutex', name }))
    const orders = await backend.join(lines.map((one) => join(one, 'a')))
    expect(state(orders)).toEqual(['granted', 'granted', 'granted'])
    const other = await openPort(await openBackend(server.url), 'other')
    // A tombstone tells nobody, and stands in the line like whoever waits.
    await other.backend.leave([other.leave(lines[1]!, 'b', { tombstoneMs: 60_000 })])
    await other.backend.leave([other.leave(line, 'b', { tombstoneMs: 60_000 })])
    const many = await workOf(async () => {
      const left = await backend.leave([...lines, line].map((one) => leave(one, 'a')))
      expect(left).toEqual([true, true, true, false])
    })
    expect(many).toHaveLength(2)
    await backend.join([join(line, 'c')])
    expect(await backend.leave([leave(line, 'c')])).toEqual([true])
    expect(await backend.leave([leave(line, 'c')])).toEqual([false])
    expect(await raw.exists('holdfast:x', 'holdfast:y', 'holdfast:z', 'holdfast:short')).toBe(0)
    await other.backend.close()
  })

  test('free, held, repeated and spoilt ones in one call are each answered for themselves', async () => {
    const { backend, join } = port
    const at = (name: string): LineKey => ({ kind: 'mutex', name })
    await raw.rpush('holdfast:list', 'not a lock')
    const [held] = await backend.join([join(at('held'), 'h')])
    const standings = await backend.join([
      join(at('free'), 'f'),
      join(at('held'), 'w'),
      join(at('held'), 'h'),
      join(at('list'), 'l'),
      join(at('twice'), 't1'),
      join(at('twice'), 't2', { wait: false }),
      join(at('twice'), 't3'),
    ])
    expect(state(standings)).toEqual(['granted', 'waiting', 'granted', 'failed', 'granted', 'refused', 'waiting'])
    expect(standings[2]).toMatchObject({ order: (held as { order: bigint }).order })
    const orders = [0, 4].map((i) => (standings[i] as { order: bigint }).order)
    expect(orders[1]).toBeGreaterThan(orders[0]!)
  })

  test('no tombstone is overlooked, alone or beside others', async () => {
    const { backend, join, leave } = port
    const other: LineKey = { kind: 'mutex', name: 'other' }
    await backend.leave([leave(line, 'late', { tombstoneMs: 60_000 })])
    expect(state(await backend.join([join(line, 'late')]))).toEqual(['gone'])
    await backend.close()
    port = await openPort(await openBackend(server.url), port.tag('').slice(0, -1))
    expect(state(await port.backend.join([port.join(other, 'o'), port.join(line, 'late')]))).toEqual([
      'granted',
      'gone',
    ])
  })
})
