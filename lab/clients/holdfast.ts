import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { connect, type Holdfast, type Lease, LockTimeoutError } from 'holdfast'
import type { Env, Held, Recipe, StoreName } from '../recipe.js'

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
    async open({ urls, ttlMs, owner, inLine }) {
      const { locks, leave } = await clientOf(urlOf(urls, ttlMs))
      const fenced = locks.guarantees.fence !== 'none'
      const leases = new Map<string, Lease>()
      const stopWatching = locks.guarantees.order === 'fifo' ? watchLine(owner, inLine) : () => {}

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
          const lease = await locks.lock(name).tryAcquire({ ttl: ttlMs, owner, ...entered(name) })
          return lease === undefined ? undefined : held(lease)
        },
        async acquire(name, waitMs) {
          try {
            return held(
              await locks.lock(name).acquire({ ttl: ttlMs, owner, wait: Math.ceil(waitMs), ...entered(name) }),
            )
          } catch (error) {
            if (error instanceof LockTimeoutError) return undefined
            throw error
          }
        },
        async close() {
          stopWatching()
          await leave()
        },
      }
    },
  }
}

/** Tells when this owner stands in line, and that it no longer did so where it was served with another ticket than that. */
function watchLine(mine: string, inLine: Env['inLine']): () => void {
  const tickets = new Map<string, string>()
  const waits = (event: unknown): void => {
    const { owner, name, id } = event as LineEvent
    if (owner !== mine) return
    tickets.set(name, id)
    inLine(name, true)
  }
  const acquires = (event: unknown): void => {
    const { owner, name, id } = event as LineEvent
    if (owner === mine && tickets.get(name) !== id) inLine(name, false)
  }
  subscribe('holdfast:wait', waits)
  subscribe('holdfast:acquire', acquires)
  return () => {
    unsubscribe('holdfast:wait', waits)
    unsubscribe('holdfast:acquire', acquires)
  }
}

interface LineEvent {
  readonly owner: string
  readonly name: string
  readonly id: string
}

/** As a program sees it that stops when the lease's signal aborts: a hold that is in doubt goes on until its deadline. */
function isHeld(lease: Lease | undefined): boolean {
  return lease?.state === 'held' || lease?.state === 'uncertain'
}

interface Shared {
  readonly client: Promise<Holdfast>
  users: number
}

const clients = new Map<string, Shared>()

/** One client a process and store, as one uses it; closed when the last of its users leaves. */
async function clientOf(url: string): Promise<{ locks: Holdfast; leave: () => Promise<void> }> {
  const shared = clients.get(url) ?? { client: connect(url, { callTimeout: '1s' }), users: 0 }
  clients.set(url, shared)
  shared.users += 1
  const leave = async (): Promise<void> => {
    shared.users -= 1
    if (shared.users > 0) return
    clients.delete(url)
    await (await shared.client).close()
  }
  try {
    return { locks: await shared.client, leave }
  } catch (error) {
    // Whoever asks again gets a new one.
    clients.delete(url)
    throw error
  }
}
