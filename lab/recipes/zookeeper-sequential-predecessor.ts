import { nodeName, ZooKeeper } from '../clients/zookeeper.js'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = {
  name: 'zookeeper-sequential-predecessor',
  title: 'ZooKeeper: sequential nodes, each watches the one before it',
  store: 'zookeeper',
  story:
    'ZooKeeper’s own recipe page: take a number; the lowest holds; each of the others watches the number before it.',
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
        const numbers = (await zookeeper.children(root)).filter((child) => child.startsWith(prefix)).toSorted()
        const index = numbers.indexOf(own)
        if (index === -1) throw new Error('the own node is gone')
        if (index === 0) {
          return { believes: () => true, release: async () => await zookeeper.delete(`${root}/${own}`) }
        }
        const node = waitMs === 0 ? undefined : await zookeeper.watchNode(`${root}/${numbers[index - 1]}`)
        if (node?.value === false) continue
        if (node === undefined || !(await node.changed(until - performance.now()))) {
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
