import { openRedis, spin } from '../clients/redis.js'
import type { Held, Recipe } from '../recipe.js'

const recipe: Recipe = {
  name: 'redis-getset-timestamp',
  title: 'Redis: SETNX with a timestamp, taken over by GETSET',
  store: 'redis',
  story:
    'No expiry on the key: its value is when it ends, by the clock of whoever wrote it; GETSET decides who takes an old one over.',
  offers: { ttl: true, blocking: true, reentrant: false },
  open: async ({ urls, ttlMs, now, step }) => {
    const redis = openRedis(urls[0]!)
    const held = (name: string, expires: number): Held => ({
      believes: () => true,
      // Only when it has not run out: else it may be another's by now.
      release: async () => now() < expires && (await redis.del(name)) === 1,
    })
    const tryAcquire = async (name: string): Promise<Held | undefined> => {
      const expires = now() + ttlMs
      if ((await redis.setnx(name, String(expires))) === 1) {
        await step('after SETNX')
        return held(name, expires)
      }
      const current = await redis.get(name)
      if (current !== null && Number(current) > now()) return undefined
      const previous = await redis.getset(name, String(expires))
      return previous === current ? held(name, expires) : undefined
    }
    return {
      tryAcquire,
      acquire: (name, waitMs) => spin(() => tryAcquire(name), 50, waitMs),
      close: async () => redis.disconnect(),
    }
  },
}
export default recipe
