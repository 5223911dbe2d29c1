import { openRedis, spin } from '../clients/redis.js'
import type { Held, Recipe } from '../recipe.js'

const TAKE = `if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`

const recipe: Recipe = {
  name: 'redis-setnx-expire-lua',
  title: 'Redis: SETNX and EXPIRE in one Lua script',
  store: 'redis',
  story: 'The repair of the first post: both commands in one script, so no crash comes between. Released by DEL.',
  offers: { ttl: true, blocking: true, reentrant: false },
  open: async ({ urls, ttlMs }) => {
    const redis = openRedis(urls[0]!)
    const tryAcquire = async (name: string): Promise<Held | undefined> => {
      if ((await redis.eval(TAKE, 1, name, '1', ttlMs)) !== 1) return undefined
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
