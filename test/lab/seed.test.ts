import { expect, test } from 'vitest'
import { build } from './build.js'

const { allRecipes, allSituations } = await build<typeof import('../../lab/catalogue.js')>('catalogue.js')
const { runMatrix } = await build<typeof import('../../lab/run.js')>('run.js')

/** In which order the waiters asked. */
async function order(seed: number): Promise<string[]> {
  const recipes = (await allRecipes()).filter(({ name }) => name === 'holdfast-sqlite')
  const situations = (await allSituations()).filter(({ name }) => name === 'fifty-waiters')
  const [cell] = await runMatrix({ recipes, situations, seed, jobs: 1 })
  const asks = cell!.evidence.history.filter(({ call }) => call === 'acquire')
  return asks.map(({ owner }) => owner)
}

test('the same seed plays the same cell, another seed another', async () => {
  const [once, again, other] = await Promise.all([order(7), order(7), order(8)])
  expect(once).toHaveLength(51)
  expect(again).toEqual(once)
  expect(other).not.toEqual(once)
  expect(other.toSorted()).toEqual(once.toSorted())
})
