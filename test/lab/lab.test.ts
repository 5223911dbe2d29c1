import { expect, test } from 'vitest'
import type { Cell } from '../../lab/run.js'
import { memcached } from '../../src/backends/memcached/index.js'

/** Compiled: contenders are processes of their own, and start from build/. */
const build = new URL('../../build/lab/', import.meta.url)
const { allRecipes, allSituations } = (await import(
  new URL('catalogue.js', build).href
)) as typeof import('../../lab/catalogue.js')
const { expectation, isExpected } = (await import(
  new URL('expectations.js', build).href
)) as typeof import('../../lab/expectations.js')
const { runMatrix } = (await import(new URL('run.js', build).href)) as typeof import('../../lab/run.js')

const recipes = await allRecipes()
const situations = await allSituations()

/** The quick stores, each kind of failure, and Holdfast; `npm run lab` plays everything. */
const PLAYED: Readonly<Record<string, readonly string[]>> = {
  'redis-setnx-then-expire': ['crash-between-steps', 'reply-lost'],
  'redis-set-nx-px-blind-del': ['holder-crashes', 'late-release', 'server-restarted'],
  'redis-set-nx-px-get-then-del': ['late-release'],
  'redis-set-nx-px-lua-del': ['holder-paused', 'holder-slow', 'late-release', 'failover', 'blackholed'],
  'redis-getset-timestamp': ['clock-off'],
  'redis-spin': ['fifty-waiters'],
  'holdfast-redis': situations.map(({ name }) => name),
  'holdfast-sqlite': situations.map(({ name }) => name),
}

test('every recipe breaks where the literature says so, and Holdfast holds', { timeout: 180_000 }, async () => {
  const rows = recipes.filter(({ name }) => name in PLAYED)
  expect(rows.map(({ name }) => name).toSorted()).toEqual(Object.keys(PLAYED).toSorted())
  const cells: Cell[] = []
  const play = async (names: readonly string[]): Promise<void> => {
    for (const recipe of rows.filter(({ name }) => names.includes(name))) {
      const chosen = situations.filter(({ name }) => PLAYED[recipe.name]!.includes(name))
      cells.push(...(await runMatrix({ recipes: [recipe], situations: chosen, seed: 1, jobs: 1 })))
    }
  }
  const [own, others] = [Object.keys(PLAYED).filter(isOurs), Object.keys(PLAYED).filter((name) => !isOurs(name))]
  await Promise.all([play(own), play(others)])
  const odd = cells.filter((cell) => !isExpected(cell))
  expect(
    odd.map(({ recipe, situation, verdict }) => {
      return `${recipe.name} × ${situation.name}: ${verdict.word} (${verdict.why})`
    }),
  ).toEqual([])
})

function isOurs(name: string): boolean {
  return name.startsWith('holdfast-')
}

test('there is a reason for every expectation', () => {
  for (const recipe of recipes) {
    for (const { name } of situations) {
      const { word, because } = expectation(recipe, name)
      if (word !== 'not offered') expect(because, `${recipe.name} × ${name}`).not.toBe('')
    }
  }
})

test('Holdfast is expected to be unsafe only where its guarantees promise nothing', () => {
  const { guarantees } = memcached({ servers: ['localhost'] })
  expect(guarantees).toMatchObject({ fence: 'none', survives: ['client-crash'] })
  for (const recipe of recipes.filter(({ name }) => isOurs(name))) {
    const not = situations.filter(({ name }) => ['unsafe', 'hangs'].includes(expectation(recipe, name).word))
    const names = not.map(({ name }) => name)
    // Without a token nobody can keep a late write out; what forgets at a restart cannot keep its promise over one.
    expect(names, recipe.name).toEqual(recipe.store === 'memcached' ? ['holder-paused', 'server-restarted'] : [])
  }
})
