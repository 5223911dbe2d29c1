import { openRedis, randomValue, spin } from '../clients/redis.js'
import type { Held, Recipe } from '../recipe.js'

const recipe: Recipe = {
  name: 'redis-set-nx-px-get-then-del',
  title: 'Redis: SET NX PX, released by GET, compare, DEL',
  store: 'redis',
  story: 'A value of its own, compared by the client before DEL: two commands, and time between them.',
  offers: { ttl: true, blocking: true, reentrant: false },
  open: async ({ urls, ttlMs, step }) => {
    const redis = openRedis(urls[0]!)
    const tryAcquire = async (name: string): Promise<Held | undefined> => {
      const value = randomValue()
      if ((await redis.set(name, value, 'PX', ttlMs, 'NX')) !== 'OK') return undefined
      const release = async (): Promise<boolean> => {
        if ((await redis.get(name)) !== value) return false
        await step('between GET and DEL')
        return (await redis.del(name)) === 1
      }
      return { believes: () => true, release }
    }
    return {
      tryAcquire,
      acquire: (name, waitMs) => spin(() => tryAcquire(name), 50, waitMs),
      close: async () => redis.disconnect(),
    }
  },
}
export default recipe
