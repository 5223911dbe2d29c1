import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { ThreeRedis } from './three-redis.js'

/** An error of a quorum tells what each server answered. */

let three: ThreeRedis
beforeAll(async () => {
  three = await ThreeRedis.start(60_000, 1_500)
})
afterEach(() => three.heal())
afterAll(() => three.stop())

const words = async (failing: Promise<unknown>): Promise<(string | undefined)[]> => {
  const error = (await failing.catch((thrown: unknown) => thrown)) as Error
  expect(error).toMatchObject({ code: 'BACKEND', retryable: true })
  return three.proxies.map(({ port }) => new RegExp(`127\\.0\\.0\\.1:${port}: ([^·]*[^· ])`).exec(error.message)?.[1])
}

test('a look that two of three do not answer', async () => {
  const locks = await three.client()
  for (const proxy of three.proxies.slice(1)) proxy.blackhole()
  expect(await words(locks.view('x'))).toEqual(['ok', 'no answer in time', 'no answer in time'])
})

test('a try to which one says yes and one no, with the third away', async () => {
  const locks = await three.client()
  const second = new Redis(three.servers[1]!.url)
  await second.set('holdfast:split', 'of another locker')
  second.disconnect()
  await three.proxies[2]!.refuse()
  const [first, other, away] = await words(locks.lock('split').tryAcquire())
  expect([first, other]).toEqual(['ok', 'it said no'])
  expect(away).toMatch(/^Redis failed to join/)
})
