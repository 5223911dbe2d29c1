import { openRedis, randomValue, sleep } from '../clients/redis.js'
import type { Held, Recipe } from '../recipe.js'

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`
const TRIES = 10
const SLEEP_MS = 200

const recipe: Recipe = {
  name: 'redis-spin',
  title: 'Redis: SET NX PX, ten tries with a fixed sleep',
  store: 'redis',
  story: 'What most client libraries do by default: sleep 200 ms, try again, give up after ten tries.',
  offers: { ttl: true, blocking: true, reentrant: false },
  open: async ({ urls, ttlMs }) => {
    const redis = openRedis(urls[0]!)
    const tryAcquire = async (name: string): Promise<Held | undefined> => {
      const value = randomValue()
      if ((await redis.set(name, value, 'PX', ttlMs, 'NX')) !== 'OK') return undefined
      return { believes: () => true, release: async () => (await redis.eval(RELEASE, 1, name, value)) === 1 }
    }
    const acquire = async (name: string): Promise<Held | undefined> => {
      for (let i = 0; i < TRIES; i += 1) {
        const held = await tryAcquire(name)
        if (held !== undefined) return held
        await sleep(SLEEP_MS)
      }
      return undefined
    }
    return { tryAcquire, acquire, close: async () => redis.disconnect() }
  },
}
export default recipe
