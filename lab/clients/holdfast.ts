import { connect, type Lease, LockTimeoutError } from 'holdfast'
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
      const locks = await connect(urlOf(urls, ttlMs), { ttl: ttlMs, owner, callTimeout: '1s' })
      const fenced = locks.guarantees.fence !== 'none'
      const leases = new Map<string, Lease>()

      function held(lease: Lease): Held {
        if (leases.get(lease.name)?.state !== 'held') leases.set(lease.name, lease)
        return {
          ...(fenced ? { fence: lease.fence } : {}),
          believes: () => lease.state === 'held',
          release: async () => await lease.release(),
        }
      }

      /** Whoever holds it already enters it again. */
      function entered(name: string): { within?: Lease } {
        const outer = leases.get(name)
        return outer?.state === 'held' ? { within: outer } : {}
      }

      return {
        async tryAcquire(name) {
          const lease = await locks.lock(name).tryAcquire(entered(name))
          return lease === undefined ? undefined : held(lease)
        },
        async acquire(name, waitMs) {
          try {
            return held(await locks.lock(name).acquire({ wait: Math.ceil(waitMs), ...entered(name) }))
          } catch (error) {
            if (error instanceof LockTimeoutError) return undefined
            throw error
          }
        },
        close: async () => await locks.close(),
      }
    },
  }
}
