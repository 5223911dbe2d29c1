import { openRedis, spin } from '../clients/redis.js'
import type { Held, Recipe } from '../recipe.js'

const recipe: Recipe = {
  name: 'redis-setnx-then-expire',
  title: 'Redis: SETNX, then EXPIRE',
  store: 'redis',
  story: 'The oldest post of all: SETNX takes the lock, a second command gives it an expiry, DEL releases it.',
  offers: { ttl: true, blocking: true, reentrant: false },
  open: async ({ urls, ttlMs, step }) => {
    const redis = openRedis(urls[0]!)
    const tryAcquire = async (name: string): Promise<Held | undefined> => {
      if ((await redis.setnx(name, '1')) === 0) return undefined
      await step('between SETNX and EXPIRE')
      await redis.pexpire(name, ttlMs)
      return { believes: () => true, release: async () => (await redis.del(name)) === 1 }
    }
    return {
      tryAcquire,
      acquire: (name, waitMs) => spin(() => tryAcquire(name), 50, waitMs),
      close: async () => redis.disconnect(),
    }
  },
}
export default recipe
