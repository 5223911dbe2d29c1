import { nodeName, ZooKeeper } from '../clients/zookeeper.js'
import type { Held, Recipe } from '../recipe.js'

const ROOT = '/lab-ephemeral'

const recipe: Recipe = {
  name: 'zookeeper-ephemeral-all-watch',
  title: 'ZooKeeper: one ephemeral node, everyone watches it',
  store: 'zookeeper',
  story: 'The first version in every ZooKeeper post: whoever creates the node holds; all others wait until it is gone.',
  offers: { ttl: true, blocking: true, reentrant: false },
  async open({ urls, ttlMs }) {
    const zookeeper = await ZooKeeper.open(urls[0]!, ttlMs)
    await zookeeper.createRoot(ROOT)

    async function tryAcquire(name: string): Promise<Held | undefined> {
      const path = `${ROOT}/${nodeName(name)}`
      if (!(await zookeeper.createEphemeral(path))) return undefined
      return { believes: () => true, release: async () => await zookeeper.delete(path) }
    }

    return {
      tryAcquire,
      async acquire(name, waitMs) {
        const until = performance.now() + waitMs
        for (;;) {
          const held = await tryAcquire(name)
          if (held !== undefined) return held
          const node = await zookeeper.watchNode(`${ROOT}/${nodeName(name)}`)
          if (node.value && !(await node.changed(until - performance.now()))) return undefined
        }
      },
      close: async () => await zookeeper.close(),
    }
  },
}

export default recipe
