import { nodeName, ZooKeeper } from '../clients/zookeeper.js'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = {
  name: 'zookeeper-sequential-watch-parent',
  title: 'ZooKeeper: sequential nodes, everyone watches the parent',
  store: 'zookeeper',
  story:
    'The second version in the posts: take a number; the lowest holds; all others look again whenever one changes.',
  offers: { ttl: true, blocking: true, reentrant: false },
  async open(env) {
    const { urls, ttlMs, space } = env
    const root = `/${space}`
    const zookeeper = await ZooKeeper.open(urls[0]!, ttlMs)
    await zookeeper.createRoot(root)

    async function acquire(name: string, waitMs: number) {
      const until = performance.now() + waitMs
      const prefix = `${nodeName(name)}_lock_`
      const own = await zookeeper.createSequential(root, prefix)
      await env.step('has a number')
      for (;;) {
        const children = await zookeeper.watchChildren(root)
        const numbers = children.value.filter((child) => child.startsWith(prefix)).toSorted()
        const index = numbers.indexOf(own)
        if (index === -1) throw new Error('the own node is gone')
        if (index === 0) {
          return { believes: () => true, release: async () => await zookeeper.delete(`${root}/${own}`) }
        }
        if (waitMs === 0 || !(await children.changed(until - performance.now()))) {
          await zookeeper.delete(`${root}/${own}`)
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
