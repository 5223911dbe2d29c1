import { lockPath, ZooKeeper } from '../clients/zookeeper.js'
import type { Recipe } from '../recipe.js'

const ROOT = '/lab-sequential'

const recipe: Recipe = {
  name: 'zookeeper-sequential-watch-parent',
  title: 'ZooKeeper: sequential nodes, everyone watches the parent',
  store: 'zookeeper',
  story:
    'The second version in the posts: take a number; the lowest holds; all others look again whenever one changes.',
  offers: { ttl: true, blocking: true, reentrant: false },
  async open(env) {
    const { urls, ttlMs } = env
    const zookeeper = await ZooKeeper.open(urls[0]!, ttlMs)

    async function acquire(name: string, waitMs: number) {
      const until = performance.now() + waitMs
      const parent = lockPath(ROOT, name)
      await zookeeper.createParents(parent)
      const own = await zookeeper.createSequential(parent, 'lock-')
      await env.step('has a number')
      for (;;) {
        const children = await zookeeper.watchChildren(parent)
        if (children.value.toSorted()[0] === own) {
          return { believes: () => true, release: async () => await zookeeper.delete(`${parent}/${own}`) }
        }
        if (waitMs === 0 || !(await children.changed(until - performance.now()))) {
          await zookeeper.delete(`${parent}/${own}`)
          return undefined
        }
      }
    }

    return {
      tryAcquire: async (name) => await acquire(name, 0),
      acquire,
      close: async () => await zookeeper.close(),
    }
  },
}

export default recipe
