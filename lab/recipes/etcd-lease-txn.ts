import { Etcd3, type Watcher } from 'etcd3'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = {
  name: 'etcd-lease-txn',
  title: 'etcd: lease, Txn, wait for deletes',
  store: 'etcd',
  story:
    'What etcd’s own clients do: a key under a lease, created in a Txn; the oldest holds; each waits for the one before.',
  offers: { ttl: true, blocking: true, reentrant: false },
  async open(env) {
    const { urls, ttlMs, owner } = env
    const etcd = new Etcd3({ hosts: urls.map((url) => url.replace('etcd:', 'http:')) })

    async function acquire(name: string, waitMs: number) {
      const until = performance.now() + waitMs
      // Kept alive by the client library.
      const lease = etcd.lease(Math.ceil(ttlMs / 1_000))
      let lost = false
      lease.on('lost', () => (lost = true))
      const id = await lease.grant()
      await env.step('has a lease')
      const key = `lab/${name}/${id}`
      const put = etcd.put(key).value(owner).lease(id)
      const { header } = await etcd.if(key, 'Create', '==', 0).then(put).else(etcd.get(key)).commit()
      const own = Number(header.revision)
      await env.step('has a key')
      for (;;) {
        const before = etcd
          .getAll()
          .prefix(`lab/${name}/`)
          .maxCreateRevision(own - 1)
        const { kvs, header } = await before.sort('Create', 'Descend').limit(1).exec()
        const last = kvs[0]?.key.toString()
        const release = async () => {
          await lease.revoke()
          return !lost
        }
        if (last === undefined) return { believes: () => !lost, release }
        const left = waitMs === 0 ? 0 : until - performance.now()
        if (left <= 0 || !(await isDeleted(etcd, last, Number(header.revision) + 1, left))) {
          await release()
          return undefined
        }
      }
    }

    return {
      tryAcquire: async (name) => await acquire(name, 0),
      acquire,
      async close() {
        etcd.close()
      },
    }
  },
}

/** Waits until the key is deleted; false: not in time. */
async function isDeleted(etcd: Etcd3, key: string, fromRevision: number, withinMs: number): Promise<boolean> {
  const watcher: Watcher = await etcd.watch().key(key).startRevision(String(fromRevision)).create()
  try {
    return await new Promise<boolean>((resolve, reject) => {
      const timer = setTimeout(resolve, withinMs, false)
      watcher.on('delete', () => {
        clearTimeout(timer)
        resolve(true)
      })
      watcher.on('error', (error) => {
        clearTimeout(timer)
        reject(error)
      })
    })
  } finally {
    await watcher.cancel()
  }
}

export default recipe
