import { expect, test } from 'vitest'
import { Register } from '../../lab/register/register.js'

function register(): { one: Register; tick: (ms: number) => void } {
  let now = 0
  return { one: new Register(() => now), tick: (ms) => (now += ms) }
}

function read(one: Register, owner: string, fence?: number): number | undefined {
  return one.answer({ do: 'read', lock: 'x', owner, ...(fence === undefined ? {} : { fence: String(fence) }) }).visit
}

function write(one: Register, visit: number | undefined): string | undefined {
  return visit === undefined ? 'not let in' : one.answer({ do: 'write', visit }).outcome
}

test('one after another: everything is stored', () => {
  const { one } = register()
  expect(write(one, read(one, 'A'))).toBe('stored')
  expect(write(one, read(one, 'B'))).toBe('stored')
  expect(one.answer({ do: 'tell' }).tally).toEqual({ stored: 2, overlaps: 0, lostUpdates: 0, stale: 0 })
})

test('a write over what was written since the read loses an update', () => {
  const { one } = register()
  const a = read(one, 'A')
  const b = read(one, 'B')
  expect(write(one, b)).toBe('stored')
  expect(write(one, a)).toBe('clobbered')
  expect(one.answer({ do: 'tell' }).tally).toEqual({ stored: 2, overlaps: 1, lostUpdates: 1, stale: 0 })
})

test('a lower token than the newest is refused, at the write as well as at the read', () => {
  const { one } = register()
  const a = read(one, 'A', 33)
  const b = read(one, 'B', 34)
  expect(write(one, a)).toBe('refused')
  expect(write(one, b)).toBe('stored')
  expect(read(one, 'A', 33)).toBeUndefined()
  expect(write(one, read(one, 'B', 34))).toBe('stored')
  const { tally, visits } = one.answer({ do: 'tell' })
  expect(tally).toEqual({ stored: 2, overlaps: 1, lostUpdates: 0, stale: 2 })
  expect(visits?.map(({ owner, outcome }) => `${owner} ${outcome}`)).toEqual([
    'A refused',
    'B stored',
    'A refused',
    'B stored',
  ])
})

test('locks do not know of each other', () => {
  const { one } = register()
  const a = one.answer({ do: 'read', lock: 'x', owner: 'A', fence: '9' }).visit
  const b = one.answer({ do: 'read', lock: 'y', owner: 'B', fence: '1' }).visit
  expect([write(one, b), write(one, a)]).toEqual(['stored', 'stored'])
  expect(one.answer({ do: 'tell' }).tally?.overlaps).toBe(0)
})

test('a visitor that is gone leaves an unfinished visit, and is in nobody’s way', () => {
  const { one, tick } = register()
  const a = read(one, 'A')
  tick(5)
  one.abandon([a!])
  tick(5)
  expect(write(one, read(one, 'B'))).toBe('stored')
  const { tally, visits } = one.answer({ do: 'tell' })
  expect(tally?.overlaps).toBe(0)
  expect(visits?.[0]).toEqual({ owner: 'A', from: 0, to: 5, outcome: 'unfinished' })
})

test('a reset forgets, and sets the clock', () => {
  const { one, tick } = register()
  write(one, read(one, 'A', 7))
  tick(100)
  one.answer({ do: 'reset', since: 100 })
  tick(3)
  expect(write(one, read(one, 'A', 1))).toBe('stored')
  expect(one.answer({ do: 'tell' }).visits).toEqual([{ owner: 'A', from: 3, to: 3, outcome: 'stored', fence: '1' }])
})
