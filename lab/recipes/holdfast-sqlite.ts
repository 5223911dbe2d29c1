import { connect, type Lease } from 'holdfast'
import type { Held, Recipe } from '../recipe.js'

const recipe: Recipe = {
  name: 'holdfast-sqlite',
  title: 'Holdfast on SQLite',
  store: 'sqlite',
  story: 'dev',
  fenced: true,
  offers: { ttl: true, blocking: true, reentrant: true },
  async open({ urls, ttlMs, owner }) {
    const locks = await connect(urls[0])
    const own = new Map<string, Lease>()
    const held = (name: string, lease: Lease): Held => {
      if (!own.has(name)) own.set(name, lease)
      return {
        fence: lease.fence,
        believes: () => lease.state === 'held' || (lease.state === 'uncertain' && lease.remainingMs > 0),
        release: async () => {
          if (own.get(name) === lease) own.delete(name)
          return await lease.release()
        },
      }
    }
    const options = (name: string) => {
      const within = own.get(name)
      return { ttl: ttlMs, owner, ...(within === undefined ? {} : { within }) }
    }
    return {
      async tryAcquire(name) {
        const lease = await locks.lock(name).tryAcquire(options(name))
        return lease === undefined ? undefined : held(name, lease)
      },
      async acquire(name, waitMs) {
        return held(name, await locks.lock(name).acquire({ ...options(name), wait: waitMs }))
      },
      async close() {
        await locks.close()
      },
    }
  },
}
export default recipe
