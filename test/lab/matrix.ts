import { beforeAll, describe, expect, test } from 'vitest'
import type { Recipe } from '../../lab/recipe.js'
import type { Cell } from '../../lab/run.js'
import { build } from './build.js'

/** The same in every run; `--seed` plays others. */
const SEED = 1
/** Cells mostly wait, so more of them than there are cores are played at once. */
const JOBS = 4
const LONGEST_MS = 900_000

const { allRecipes, allSituations, isHoldfast } = await build<typeof import('../../lab/catalogue.js')>('catalogue.js')
const { expectation } = await build<typeof import('../../lab/expectations.js')>('expectations.js')
const { runMatrix } = await build<typeof import('../../lab/run.js')>('run.js')

/**
 * Plays these recipes in every situation and asserts every cell: one that breaks where it should hold fails, and so
 * does one that holds where it should break.
 */
export async function assertMatrix(whose: 'of Holdfast' | 'of others'): Promise<void> {
  const recipes = (await allRecipes()).filter((recipe) => isHoldfast(recipe) === (whose === 'of Holdfast'))
  const situations = await allSituations()
  const played = new Map<string, Cell>()
  const troubles: string[] = []

  beforeAll(async () => {
    await runMatrix({
      recipes,
      situations,
      seed: SEED,
      jobs: JOBS,
      onCell: (cell) => played.set(key(cell.recipe, cell.situation.name), cell),
      onTrouble: ({ message, cause }) => troubles.push(`${message} ${String(cause)}`),
    })
  }, LONGEST_MS)

  describe.each(recipes.map((recipe) => [recipe.name, recipe] as const))('%s', (_name, recipe) => {
    const cells = situations.map(({ name }) => [name, expectation(recipe, name).word] as const)
    test.each(cells)('%s: %s', (situation, word) => {
      const cell = played.get(key(recipe, situation))
      if (cell === undefined) throw new Error(troubles.join('\n'))
      const again = `npm run lab -- ${recipe.name} --situation ${situation} --seed ${SEED}`
      expect(cell.verdict.word, `${cell.verdict.why}. Again: ${again}`).toBe(word)
    })
  })
}

function key(recipe: Recipe, situation: string): string {
  return `${recipe.name} × ${situation}`
}
