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

/** All recipes, store by store, those of Holdfast last. */
export async function allRecipes(): Promise<Recipe[]> {
  const recipes = await Promise.all(names('recipes').map(async (name) => await load<Recipe>('recipes', name)))
  return recipes.toSorted((a, b) => rank(a) - rank(b) || STORES.indexOf(a.store) - STORES.indexOf(b.store))
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
  return isHoldfast(recipe) ? 1 : 0
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
