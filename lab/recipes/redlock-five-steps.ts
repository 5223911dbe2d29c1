import { openRedis, randomValue, sleep } from '../clients/redis.js'
import type { Held, Recipe } from '../recipe.js'

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`
const NODE_TIMEOUT_MS = 50

const recipe: Recipe = {
  name: 'redlock-five-steps',
  title: 'Redlock in five steps, over five masters',
  store: 'redlock',
  story:
    'Time, SET NX PX on every master with a short time-out, a majority within the validity time, else release all; no token.',
  offers: { ttl: true, blocking: true, reentrant: false },
  open: async ({ urls, ttlMs }) => {
    const nodes = urls.map(openRedis)
    const bounded = async <T>(call: Promise<T>): Promise<T | undefined> =>
      await Promise.race([call.catch(() => undefined), sleep(NODE_TIMEOUT_MS).then(() => undefined)])
    const releaseAll = async (name: string, value: string): Promise<number> => {
      const answers = await Promise.all(nodes.map((node) => bounded(node.eval(RELEASE, 1, name, value))))
      return answers.filter((answer) => answer === 1).length
    }
    const tryAcquire = async (name: string): Promise<Held | undefined> => {
      const value = randomValue()
      const start = performance.now()
      const answers = await Promise.all(nodes.map((node) => bounded(node.set(name, value, 'PX', ttlMs, 'NX'))))
      const votes = answers.filter((answer) => answer === 'OK').length
      const validUntil = start + ttlMs - (ttlMs / 100 + 2)
      if (votes <= nodes.length / 2 || performance.now() >= validUntil) {
        await releaseAll(name, value)
        return undefined
      }
      // The post gives a validity time, and it is up to the caller to look at it.
      return {
        believes: () => performance.now() < validUntil,
        release: async () => (await releaseAll(name, value)) > nodes.length / 2,
      }
    }
    const acquire = async (name: string, waitMs: number): Promise<Held | undefined> => {
      const until = performance.now() + waitMs
      for (;;) {
        const held = await tryAcquire(name)
        if (held !== undefined || performance.now() > until) return held
        await sleep(50 + Math.random() * 100)
      }
    }
    return { tryAcquire, acquire, close: async () => nodes.forEach((node) => node.disconnect()) }
  },
}
export default recipe
