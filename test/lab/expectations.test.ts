import { expect, test } from 'vitest'
import { memcached } from '../../src/backends/memcached/index.js'
import { build } from './build.js'

const { allRecipes, allSituations, isHoldfast } = await build<typeof import('../../lab/catalogue.js')>('catalogue.js')
const { expectation } = await build<typeof import('../../lab/expectations.js')>('expectations.js')

const recipes = await allRecipes()
const situations = await allSituations()

test('there is an expectation for every cell, and a reason that a reader understands', () => {
  for (const recipe of recipes) {
    for (const { name } of situations) {
      const { because } = expectation(recipe, name)
      // A sentence or more, and definite.
      expect(because, `${recipe.name} × ${name}`).toMatch(/^[A-Z].{20,}[.)]$/)
      expect(because, `${recipe.name} × ${name}`).not.toMatch(/\b(either|perhaps|maybe|might|should)\b/)
    }
  }
})

test('what a recipe says of itself is what is expected of it', () => {
  for (const recipe of recipes) {
    const { blocking, reentrant } = recipe.offers
    expect(expectation(recipe, 'fifty-waiters').word === 'not offered', recipe.name).toBe(!blocking)
    if (reentrant) expect(expectation(recipe, 're-entry').word, recipe.name).not.toBe('not offered')
    if (recipe.fenced === true) expect(expectation(recipe, 'holder-paused').word, recipe.name).toBe('safe')
    if (!recipe.offers.ttl) expect(expectation(recipe, 'blackholed').word, recipe.name).toBe('hangs')
  }
})

test('every recipe that is not Holdfast breaks somewhere', () => {
  for (const recipe of recipes.filter((one) => !isHoldfast(one))) {
    const words = situations.map(({ name }) => expectation(recipe, name).word)
    expect(words, recipe.name).toContain('unsafe')
  }
})

test('Holdfast is expected to be unsafe only where its guarantees promise nothing', () => {
  const { guarantees } = memcached({ servers: ['localhost'] })
  expect(guarantees).toMatchObject({ fence: 'none', survives: ['client-crash'] })
  for (const recipe of recipes.filter(isHoldfast)) {
    const not = situations.filter(({ name }) => ['unsafe', 'hangs'].includes(expectation(recipe, name).word))
    const names = not.map(({ name }) => name)
    // Without a token nobody can keep a late write out; what forgets at a restart cannot keep its promise over one.
    expect(names, recipe.name).toEqual(recipe.store === 'memcached' ? ['holder-paused', 'server-restarted'] : [])
  }
})
