import { openRedis, spin } from '../clients/redis.js'
import type { Held, Recipe } from '../recipe.js'

const recipe: Recipe = {
  name: 'redis-set-nx-px-blind-del',
  title: 'Redis: SET NX PX, released by DEL',
  store: 'redis',
  story: 'One atomic command to take it, and DEL to give it back, whoever holds it by then.',
  offers: { ttl: true, blocking: true, reentrant: false },
  open: async ({ urls, ttlMs }) => {
    const redis = openRedis(urls[0]!)
    const tryAcquire = async (name: string): Promise<Held | undefined> => {
      if ((await redis.set(name, '1', 'PX', ttlMs, 'NX')) !== 'OK') return undefined
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
