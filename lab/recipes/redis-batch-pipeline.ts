import { openRedis, spin } from '../clients/redis.js'
import type { Held, Recipe } from '../recipe.js'

const PARTS = 3

const recipe: Recipe = {
  name: 'redis-batch-pipeline',
  title: 'Redis: a batch by pipelined SETNX, undone where it failed',
  store: 'redis',
  story:
    'Several keys by one pipeline of SETNX, then a pipeline of EXPIRE; if one failed, the others are deleted again.',
  offers: { ttl: true, blocking: true, reentrant: false },
  open: async ({ urls, ttlMs, step }) => {
    const redis = openRedis(urls[0]!)
    const tryAcquire = async (name: string): Promise<Held | undefined> => {
      const keys = Array.from({ length: PARTS }, (_, i) => `${name}:${i}`)
      const taking = redis.pipeline()
      for (const key of keys) taking.setnx(key, '1')
      const answers = (await taking.exec())!.map(([, answer]) => answer === 1)
      await step('between the pipelines')
      const taken = keys.filter((_, i) => answers[i])
      if (taken.length < keys.length) {
        if (taken.length > 0) await redis.del(...taken)
        return undefined
      }
      const expiring = redis.pipeline()
      for (const key of keys) expiring.pexpire(key, ttlMs)
      await expiring.exec()
      return { believes: () => true, release: async () => (await redis.del(...keys)) === PARTS }
    }
    return {
      tryAcquire,
      acquire: (name, waitMs) => spin(() => tryAcquire(name), 50, waitMs),
      close: async () => redis.disconnect(),
    }
  },
}
export default recipe
