import { openRedis, randomValue, spin } from '../clients/redis.js'
import type { Held, Recipe } from '../recipe.js'

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`

const recipe: Recipe = {
  name: 'redis-set-nx-px-lua-del',
  title: 'Redis: SET NX PX, released by Lua compare-and-delete',
  store: 'redis',
  story: "The recipe of Redis's own documentation for one server: right about the release, silent about slow holders.",
  offers: { ttl: true, blocking: true, reentrant: false },
  open: async ({ urls, ttlMs }) => {
    const redis = openRedis(urls[0]!)
    const tryAcquire = async (name: string): Promise<Held | undefined> => {
      const value = randomValue()
      if ((await redis.set(name, value, 'PX', ttlMs, 'NX')) !== 'OK') return undefined
      return { believes: () => true, release: async () => (await redis.eval(RELEASE, 1, name, value)) === 1 }
    }
    return {
      tryAcquire,
      acquire: (name, waitMs) => spin(() => tryAcquire(name), 50, waitMs),
      close: async () => redis.disconnect(),
    }
  },
}
export default recipe
