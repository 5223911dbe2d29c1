import { lockPath, ZooKeeper } from '../clients/zookeeper.js'
import type { Recipe } from '../recipe.js'

const ROOT = '/lab-predecessor'

const recipe: Recipe = {
  name: 'zookeeper-sequential-predecessor',
  title: 'ZooKeeper: sequential nodes, each watches the one before it',
  store: 'zookeeper',
  story:
    'ZooKeeper’s own recipe page: take a number; the lowest holds; each of the others watches the number before it.',
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
        const before = (await zookeeper.children(parent)).filter((child) => child < own).toSorted()
        const predecessor = before.at(-1)
        if (predecessor === undefined) {
          return { believes: () => true, release: async () => await zookeeper.delete(`${parent}/${own}`) }
        }
        const node = waitMs === 0 ? undefined : await zookeeper.watchNode(`${parent}/${predecessor}`)
        if (node?.value === false) continue
        if (node === undefined || !(await node.changed(until - performance.now()))) {
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
