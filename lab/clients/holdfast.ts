import { connect, type Holdfast, type Lease, LockTimeoutError } from 'holdfast'
import type { Held, Recipe, StoreName } from '../recipe.js'

/** Holdfast on a store, through nothing but its public API. */
export function holdfastOn(
  store: StoreName,
  label: string,
  story: string,
  urlOf: (urls: readonly string[], ttlMs: number) => string = ([url]) => url!,
): Recipe {
  return {
    name: `holdfast-${store}`,
    title: `Holdfast on ${label}`,
    store,
    story,
    fenced: store !== 'memcached',
    offers: { ttl: true, blocking: true, reentrant: true },
    async open({ urls, ttlMs, owner }) {
      const url = urlOf(urls, ttlMs)
      const locks = await shared(url)
      const options = { ttl: ttlMs, owner }
      const fenced = locks.guarantees.fence !== 'none'
      const leases = new Map<string, Lease>()

      function held(lease: Lease): Held {
        if (!isHeld(leases.get(lease.name))) leases.set(lease.name, lease)
        return {
          ...(fenced ? { fence: lease.fence } : {}),
          believes: () => isHeld(lease),
          release: async () => await lease.release(),
        }
      }

      /** Whoever holds it already enters it again. */
      function entered(name: string): { within?: Lease } {
        const outer = leases.get(name)
        return outer !== undefined && isHeld(outer) ? { within: outer } : {}
      }

      return {
        async tryAcquire(name) {
          const lease = await locks.lock(name, options).tryAcquire(entered(name))
          return lease === undefined ? undefined : held(lease)
        },
        async acquire(name, waitMs) {
          try {
            return held(await locks.lock(name, options).acquire({ wait: Math.ceil(waitMs), ...entered(name) }))
          } catch (error) {
            if (error instanceof LockTimeoutError) return undefined
            throw error
          }
        },
        close: async () => await leave(url),
      }
    },
  }
}

/** As a program sees it that stops when the lease's signal aborts: a hold that is in doubt goes on until its deadline. */
function isHeld(lease: Lease | undefined): boolean {
  return lease?.state === 'held' || lease?.state === 'uncertain'
}

const clients = new Map<string, { readonly opening: Promise<Holdfast>; users: number }>()

/** One client a process, however many contenders live in it: so it is used, and so its calls go in batches. */
async function shared(url: string): Promise<Holdfast> {
  const known = clients.get(url) ?? { opening: connect(url, { callTimeout: '1s' }), users: 0 }
  clients.set(url, known)
  known.users += 1
  return await known.opening
}

async function leave(url: string): Promise<void> {
  const known = clients.get(url)
  if (known === undefined) return
  known.users -= 1
  if (known.users > 0) return
  clients.delete(url)
  await (await known.opening).close()
}
