import { Etcd3, type Lease, type Watcher } from 'etcd3'
import type { Recipe } from '../recipe.js'

const recipe: Recipe = {
  name: 'etcd-lease-txn',
  title: 'etcd: lease, Txn, wait for deletes',
  store: 'etcd',
  story:
    'What etcd’s own Go client does: a key under the session’s lease, made in a Txn; the oldest holds; each waits for the one before.',
  offers: { ttl: true, blocking: true, reentrant: false },
  async open(env) {
    const etcd = new Etcd3({ hosts: env.urls.map((url) => url.replace('etcd:', 'http:')) })
    let session = await newSession(etcd, env.ttlMs)

    async function acquire(name: string, waitMs: number) {
      const until = performance.now() + waitMs
      if (session.lost) session = await newSession(etcd, env.ttlMs)
      const held = session
      const key = `lab/${name}/${held.id}`
      const own = await createRevision(etcd, key, held.id, env.owner)
      const release = async () => Number((await etcd.delete().key(key)).deleted) > 0
      await env.step('has a key')
      for (;;) {
        const before = etcd
          .getAll()
          .prefix(`lab/${name}/`)
          .maxCreateRevision(own - 1)
        const { kvs, header } = await before.sort('Create', 'Descend').limit(1).exec()
        const last = kvs[0]?.key.toString()
        if (last === undefined) {
          if ((await etcd.get(key).exec()).kvs.length === 0) throw new Error('the session is over')
          return { believes: () => !held.lost, release }
        }
        const leftMs = until - performance.now()
        if (waitMs === 0 || !(await isDeleted(etcd, last, Number(header.revision) + 1, leftMs))) {
          await release()
          return undefined
        }
      }
    }

    return {
      tryAcquire: async (name) => await acquire(name, 0),
      acquire,
      async close() {
        try {
          await session.lease.revoke()
        } finally {
          etcd.close()
        }
      },
    }
  },
}

interface Session {
  readonly lease: Lease
  readonly id: string
  lost: boolean
}

/** A lease that the client library keeps alive; it says when it is over. */
async function newSession(etcd: Etcd3, ttlMs: number): Promise<Session> {
  const lease = etcd.lease(Math.ceil(ttlMs / 1_000))
  const session = { lease, id: await lease.grant(), lost: false }
  lease.on('lost', () => (session.lost = true))
  return session
}

/** Makes the key unless it is there (the answer to an earlier try was lost), and says when it was made. */
async function createRevision(etcd: Etcd3, key: string, leaseId: string, owner: string): Promise<number> {
  const put = etcd.put(key).value(owner).lease(leaseId)
  const { succeeded, header, responses } = await etcd.if(key, 'Create', '==', 0).then(put).else(etcd.get(key)).commit()
  return Number(succeeded ? header.revision : responses[0]!.response_range.kvs[0]!.create_revision)
}

/** Waits until the key is deleted; false: not in time. */
async function isDeleted(etcd: Etcd3, key: string, fromRevision: number, withinMs: number): Promise<boolean> {
  const watcher: Watcher = await etcd.watch().key(key).startRevision(String(fromRevision)).create()
  try {
    return await new Promise<boolean>((resolve, reject) => {
      const timer = setTimeout(resolve, Math.max(0, withinMs), false)
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
