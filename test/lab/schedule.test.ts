import { expect, test } from 'vitest'
import type { Recipe } from '../../lab/recipe.js'
import { Schedule, type Task } from '../../lab/schedule.js'
import type { Situation } from '../../lab/situation.js'

function recipe(name: string, store: Recipe['store']): Recipe {
  const offers = { ttl: true, blocking: true, reentrant: false }
  return { name, title: name, store, story: '', offers, open: async () => await Promise.reject(new Error('not here')) }
}

function situation(name: string, breaksServers: boolean): Situation {
  return { name, title: name, story: '', breaksServers, run: async () => {} }
}

const quiet = situation('quiet', false)
const restart = situation('restart', true)
const first = recipe('first', 'redis')
const second = recipe('second', 'redis')
const other = recipe('other', 'etcd')

function tasks(recipes: readonly Recipe[]): Task[] {
  return recipes.flatMap((one) => [restart, quiet].map((two) => ({ recipe: one, situation: two })))
}

function names(list: readonly Task[]): string[] {
  return list.map((task) => `${task.recipe.name} ${task.situation.name}`)
}

test('what breaks the servers waits until all others of that store are done', async () => {
  const schedule = new Schedule(tasks([first, second]))
  const taken = [(await schedule.take())!, (await schedule.take())!]
  expect(names(taken)).toEqual(['first quiet', 'second quiet'])
  const next = schedule.take()
  expect(schedule.done(taken[0]!)).toBe(false)
  expect(schedule.done(taken[1]!)).toBe(false)
  expect(names([(await next)!])).toEqual(['first restart'])
})

test('two that break the same servers are played one after the other, those of other stores meanwhile', async () => {
  const schedule = new Schedule([
    { recipe: first, situation: restart },
    { recipe: second, situation: restart },
    { recipe: other, situation: restart },
  ])
  const taken = [(await schedule.take())!, (await schedule.take())!]
  expect(names(taken)).toEqual(['first restart', 'other restart'])
  const next = schedule.take()
  expect(schedule.done(taken[0]!)).toBe(false)
  const last = (await next)!
  expect(names([last])).toEqual(['second restart'])
  expect(schedule.done(last)).toBe(true)
  expect(schedule.done(taken[1]!)).toBe(true)
  expect(await schedule.take()).toBeUndefined()
})

test('says which store comes next, so that it can be made ready', () => {
  const schedule = new Schedule(tasks([first, other]))
  expect(schedule.storeAfter('redis')).toBe('etcd')
  expect(schedule.storeAfter('etcd')).toBe('redis')
})
