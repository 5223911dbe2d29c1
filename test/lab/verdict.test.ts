import { describe, expect, test } from 'vitest'
import type { Operation } from '../../lab/checker/history.js'
import type { Recipe } from '../../lab/recipe.js'
import type { Evidence } from '../../lab/situation.js'
import { judge } from '../../lab/verdict.js'

const recipe: Recipe = {
  name: 'a-recipe',
  title: 'A recipe',
  store: 'redis',
  story: '',
  offers: { ttl: true, blocking: true, reentrant: false },
  open: async () => {
    throw new Error('Nothing is played here.')
  },
}
const fenced: Recipe = { ...recipe, fenced: true }

const nothing: Evidence = {
  seed: 1,
  ttlMs: 700,
  ms: 100,
  history: [],
  marks: [],
  stretches: [],
  visits: [],
  tally: { stored: 0, overlaps: 0, lostUpdates: 0, stale: 0 },
  facts: [],
}

function acquire(owner: string, from: number, fence?: bigint): Operation {
  const token = fence === undefined ? {} : { fence }
  return { owner, call: 'acquire', lock: 'x', weight: 1, capacity: 1, from, to: from + 1, answer: 'yes', ...token }
}

const bothHold = [acquire('A', 0), acquire('B', 10)]

describe('the verdict', () => {
  test('is safe when nothing speaks against it', () => {
    expect(judge(recipe, nothing).word).toBe('safe')
  })

  test('is unsafe when two held at once, and shows the few operations', () => {
    const verdict = judge(recipe, { ...nothing, history: bothHold })
    expect(verdict).toMatchObject({ word: 'unsafe', why: 'A and B held it at the same time', brokenAt: 11 })
    expect(verdict.shownBy).toHaveLength(2)
  })

  test('is unsafe even where somebody also hangs', () => {
    expect(judge(recipe, { ...nothing, history: bothHold, hangs: 'C waits' }).word).toBe('unsafe')
  })

  test('is safe when two believed but the token kept the late one out', () => {
    const tally = { ...nothing.tally, stale: 1 }
    const history = [acquire('A', 0, 1n), acquire('B', 10, 2n)]
    const verdict = judge(fenced, { ...nothing, history, tally })
    expect(verdict).toMatchObject({ word: 'safe', why: 'the register refused 1 late write by the token' })
  })

  test('is unsafe when an update was lost, token or not', () => {
    const tally = { ...nothing.tally, lostUpdates: 1 }
    expect(judge(fenced, { ...nothing, tally }).word).toBe('unsafe')
    expect(judge(recipe, { ...nothing, tally }).word).toBe('unsafe')
  })

  test('is unsafe when tokens went back', () => {
    const history = [{ ...acquire('A', 0, 5n), believedUntil: 2 }, acquire('B', 10, 4n)]
    expect(judge(fenced, { ...nothing, history }).word).toBe('unsafe')
  })

  test('is safe when the hold lapsed and its holder knew', () => {
    const history = [{ ...acquire('A', 0), believedUntil: 9 }, acquire('B', 10)]
    expect(judge(recipe, { ...nothing, history }).word).toBe('safe')
  })

  test('says what hangs and what is not offered', () => {
    expect(judge(recipe, { ...nothing, hangs: 'B waits' })).toMatchObject({ word: 'hangs', why: 'B waits' })
    expect(judge(recipe, { ...nothing, notOffered: 'no way to wait' }).word).toBe('not offered')
  })
})
