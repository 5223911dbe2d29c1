import { readdirSync } from 'node:fs'
import type { Recipe } from './recipe.js'
import type { Situation } from './situation.js'

/** The order in which the columns make sense: from the everyday to the rare. */
const SITUATIONS: readonly string[] = [
  'crash-between-steps',
  'holder-crashes',
  'holder-paused',
  'holder-slow',
  'reply-lost',
  'server-restarted',
  'failover',
  'clock-off',
  'late-release',
  're-entry',
  'fifty-waiters',
  'blackholed',
]

/** The order in which the Redis recipes repair each other; a recipe that is not named here comes after, by its name. */
const STORY: readonly string[] = [
  'redis-setnx-then-expire',
  'redis-setnx-expire-lua',
  'redis-set-nx-px-blind-del',
  'redis-set-nx-px-get-then-del',
  'redis-set-nx-px-lua-del',
  'redis-getset-timestamp',
  'redis-spin',
  'redis-batch-pipeline',
  'db-unique-no-expiry',
  'db-unique-expiry',
  'db-unique-cleaning-job',
  'db-unique-owner',
  'zookeeper-ephemeral-all-watch',
  'zookeeper-sequential-watch-parent',
  'zookeeper-sequential-predecessor',
]

/** All recipes, store by store, those of Holdfast last. */
export async function allRecipes(): Promise<Recipe[]> {
  const recipes = await Promise.all(names('recipes').map(async (name) => await load<Recipe>('recipes', name)))
  return recipes.toSorted((a, b) => rank(a) - rank(b))
}

export async function allSituations(): Promise<Situation[]> {
  return await Promise.all(SITUATIONS.map(async (name) => await load<Situation>('situations', name)))
}

export function isHoldfast({ name }: Pick<Recipe, 'name'>): boolean {
  return name.startsWith('holdfast-')
}

const STORES: readonly Recipe['store'][] = [
  'redis',
  'redlock',
  'memcached',
  'mysql',
  'postgres',
  'zookeeper',
  'etcd',
  'sqlite',
]

function rank(recipe: Recipe): number {
  const told = STORY.indexOf(recipe.name)
  const place = told === -1 ? STORY.length : told
  return (isHoldfast(recipe) ? 1e4 : 0) + STORES.indexOf(recipe.store) * 100 + place
}

function names(folder: string): string[] {
  return readdirSync(new URL(`./${folder}/`, import.meta.url))
    .filter((file) => file.endsWith('.js'))
    .map((file) => file.slice(0, -'.js'.length))
    .toSorted()
}

async function load<T>(folder: string, name: string): Promise<T> {
  return ((await import(new URL(`./${folder}/${name}.js`, import.meta.url).href)) as { default: T }).default
}
