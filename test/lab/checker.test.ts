import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { check } from '../../lab/checker/check.js'
import type { History, Operation } from '../../lab/checker/history.js'
import { lines, minimise } from '../../lab/checker/minimise.js'
import { Spans } from '../../lab/checker/spans.js'

const mutex = { lock: 'x', weight: 1, capacity: 1 }

function acquire(owner: string, from: number, to: number, more: Partial<Operation> = {}): Operation {
  return { ...mutex, owner, call: 'acquire', from, to, answer: 'yes', ...more }
}

function release(owner: string, from: number, to: number, more: Partial<Operation> = {}): Operation {
  return { ...mutex, owner, call: 'release', from, to, answer: 'yes', ...more }
}

const read = { lock: 'rw', weight: 1, capacity: 10 }
const write = { lock: 'rw', weight: 10, capacity: 10 }
const { to: _, ...never } = acquire('a', 0, 1, { answer: 'unknown' })

describe('good histories', () => {
  test.each<[string, History]>([
    ['nothing', []],
    ['one after another', [acquire('a', 0, 1), release('a', 5, 6), acquire('b', 7, 8), release('b', 9, 10)]],
    [
      'answered while the release is under way',
      [acquire('a', 0, 1), release('a', 5, 9), acquire('b', 2, 6), release('b', 10, 11)],
    ],
    [
      'handed over at the same moment',
      [acquire('a', 0, 1), release('a', 5, 9), acquire('b', 2, 5), release('b', 10, 11)],
    ],
    [
      're-entered by its owner',
      [acquire('a', 0, 1), acquire('a', 2, 3), release('a', 4, 5), release('a', 6, 7), acquire('b', 7, 8)],
    ],
    [
      'lapsed, and the holder knew',
      [acquire('a', 0, 1, { believedUntil: 10 }), acquire('b', 11, 12), release('a', 20, 21, { answer: 'no' })],
    ],
    [
      'readers together',
      [
        acquire('a', 0, 1, read),
        acquire('b', 0, 1, read),
        release('a', 5, 6, read),
        release('b', 5, 6, read),
        acquire('w', 6, 7, write),
      ],
    ],
    [
      'permits that fit',
      [acquire('a', 0, 1, { weight: 2, capacity: 3 }), acquire('b', 0, 1, { weight: 1, capacity: 3 })],
    ],
    ['a refusal beside a holder', [acquire('a', 0, 1), acquire('b', 2, 3, { answer: 'no' })]],
    ['a refusal beside one who may hold', [never, acquire('b', 20, 30, { answer: 'no' })]],
    ['tokens that grow', [acquire('a', 0, 1, { fence: 1n }), release('a', 2, 3), acquire('b', 4, 5, { fence: 2n })]],
    [
      'served in the order in which they stood in line',
      [acquire('a', 0, 9, { inLineAt: 2 }), release('a', 10, 11), acquire('b', 3, 12, { inLineAt: 4 })],
    ],
    [
      'asked later, but stood in line earlier',
      [acquire('b', 3, 9, { inLineAt: 4 }), release('b', 10, 11), acquire('a', 0, 12, { inLineAt: 5 })],
    ],
    ['two locks are two locks', [acquire('a', 0, 1), acquire('b', 0, 1, { lock: 'y' })]],
  ])('%s', (_name, history) => {
    expect(check(history)).toBeUndefined()
  })
})

describe('bad histories', () => {
  test.each<[string, string, History]>([
    ['two holders', 'overlap', [acquire('a', 0, 1), acquire('b', 2, 3), release('a', 5, 6), release('b', 7, 8)]],
    ['two holders', 'never released, still believed in', [acquire('a', 0, 1), acquire('b', 100, 101)]],
    [
      'two holders',
      'lapsed, and the holder did not know',
      [acquire('a', 0, 1, { believedUntil: 50 }), acquire('b', 40, 41), release('b', 60, 61)],
    ],
    ['two holders', 'a writer beside a reader', [acquire('a', 0, 1, read), acquire('w', 2, 3, write)]],
    [
      'two holders',
      'one permit too many',
      [acquire('a', 0, 1, { weight: 2, capacity: 3 }), acquire('b', 2, 3, { weight: 2, capacity: 3 })],
    ],
    [
      'two holders',
      'the inner release freed the outer hold',
      [acquire('a', 0, 1), acquire('a', 2, 3), release('a', 4, 5), acquire('b', 6, 7), release('a', 9, 10)],
    ],
    [
      'fence went back',
      'lower',
      [acquire('a', 0, 1, { fence: 5n }), release('a', 2, 3), acquire('b', 4, 5, { fence: 4n })],
    ],
    [
      'fence went back',
      'repeated',
      [acquire('a', 0, 1, { fence: 5n }), release('a', 2, 3), acquire('b', 4, 5, { fence: 5n })],
    ],
    [
      'passed in line',
      'by one who asked when it stood there already',
      [acquire('b', 3, 9), release('b', 10, 11), acquire('a', 0, 12, { inLineAt: 2 })],
    ],
    [
      'refused for no reason',
      'nobody there',
      [acquire('a', 0, 1), release('a', 2, 3), acquire('b', 4, 5, { answer: 'no' })],
    ],
  ])('%s: %s', (kind, _name, history) => {
    expect(check(history)?.kind).toBe(kind)
  })
})

/** A good history of that many operations by ten owners. */
function long(count: number): Operation[] {
  const history: Operation[] = []
  for (let i = 0; i < count / 2; i += 1) {
    const owner = `p${i % 10}`
    history.push(acquire(owner, i * 10, i * 10 + 3, { fence: BigInt(i) }), release(owner, i * 10 + 6, i * 10 + 9))
  }
  return history
}

test('a bad moment in 10,000 operations is found, and told in a few lines', () => {
  const history = long(10_000)
  expect(check(history)).toBeUndefined()
  history.push(acquire('thief', 40_004, 40_005, { fence: 4_001n }), release('thief', 40_500, 40_501))
  const violation = check(history)
  expect(violation?.what).toContain('thief')
  const few = minimise(history, violation!)
  expect(few.length).toBeLessThanOrEqual(4)
  expect(lines(few).join('\n')).toContain('thief')
})

/** Mostly refusals: everybody tries while somebody holds. */
function contended(count: number): Operation[] {
  const history: Operation[] = []
  for (let i = 0; history.length < count; i += 1) {
    const at = i * 100
    history.push(acquire('holder', at, at + 1), release('holder', at + 90, at + 91))
    for (let n = 0; n < 8; n += 1) {
      history.push(acquire(`p${n}`, at + 10 * n + 2, at + 10 * n + 3, { answer: 'no' }))
    }
  }
  return history.slice(0, count)
}

/** How often the checker looks at a time while it decides. */
function looks(history: readonly Operation[]): number {
  let count = 0
  const counted = history.map((one) => ({
    ...one,
    get from() {
      count += 1
      return one.from
    },
  }))
  expect(check(counted)).toBeUndefined()
  return count
}

test.each([
  ['one after another', long],
  ['many refused', contended],
])('twice as long a history takes little more than twice the looks: %s', (_name, make) => {
  const [half, whole] = [looks(make(10_000)), looks(make(20_000))]
  expect(whole / half).toBeLessThan(2.5)
  expect(half / 10_000).toBeLessThan(100)
})

test('a span is said to overlap others exactly when it does', () => {
  const time = fc.integer({ min: 0, max: 20 })
  const span = fc
    .record({ owner: fc.constantFrom('a', 'b', 'c'), from: time, length: fc.integer({ min: 1, max: 6 }) })
    .map(({ owner, from, length }) => ({ owner, from, to: from + length }))
  fc.assert(
    fc.property(fc.array(span), span, (spans, one) => {
      const touching = spans.filter((other) => other.from < one.to && other.to > one.from)
      const lookup = new Spans(spans)
      expect(lookup.overlap(one)).toBe(touching.length > 0)
      expect(lookup.overlapOfOthers(one)).toBe(touching.some(({ owner }) => owner !== one.owner))
    }),
  )
})
