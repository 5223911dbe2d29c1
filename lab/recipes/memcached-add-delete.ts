import { MemcachedClient } from '../clients/memcached.js'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = {
  name: 'memcached-add-delete',
  title: 'memcached: add, then delete',
  store: 'memcached',
  story:
    'From cache-stampede posts: add() stores only when there is nothing, so whoever stored holds; delete() releases.',
  offers: { ttl: true, blocking: false, reentrant: false },
  async open({ urls, ttlMs }) {
    const memcached = new MemcachedClient(urls[0]!)
    // The posts say minutes, where it does not show that memcached counts whole seconds and loses up to one.
    const seconds = Math.ceil(ttlMs / 1_000) + 1
    return {
      async tryAcquire(name) {
        const key = `lock:${name}`
        if (!(await memcached.add(key, '1', seconds))) return undefined
        return { believes: () => true, release: async () => await memcached.delete(key) }
      },
      async close() {
        memcached.close()
      },
    }
  },
}

export default recipe
