import { Redis } from 'ioredis'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = {
  name: 'redis-set-nx-px-blind-del',
  title: 'Redis: SET NX PX, blind DEL',
  store: 'redis',
  story: 'dev',
  offers: { ttl: true, blocking: false, reentrant: false },
  async open({ urls, ttlMs }) {
    const client = new Redis(urls[0]!, { retryStrategy: () => 50 })
    client.on('error', () => {})
    await client.ping()
    return {
      async tryAcquire(name) {
        if ((await client.set(name, '1', 'PX', ttlMs, 'NX')) !== 'OK') return undefined
        return { believes: () => true, release: async () => (await client.del(name)) === 1 }
      },
      async close() {
        client.disconnect()
      },
    }
  },
}
export default recipe
