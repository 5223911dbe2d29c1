import type { Backend } from '../../core/backend.js'
import { type Clock, systemClock } from '../../core/clock.js'
import { MemoryBackend } from './memory-backend.js'
import { MemoryStore } from './store.js'

export interface MemoryOptions {
  /** Clients that name the same store share its lines; left out, the store is this client's alone. */
  readonly store?: string | MemoryStore
  readonly clock?: Clock
}

export { MemoryStore }

/** The stores by name, for as long as any client of this process may come back to them. */
const STORES = new Map<string, MemoryStore>()

/** A line in this process's own memory: for one process, for tests, and the reference that other stores are compared with. */
export function memory(options: MemoryOptions = {}): Backend {
  return new MemoryBackend(storeOf(options.store), options.clock ?? systemClock)
}

function storeOf(store: string | MemoryStore | undefined): MemoryStore {
  if (store === undefined) return new MemoryStore()
  if (typeof store !== 'string') return store
  const known = STORES.get(store) ?? new MemoryStore()
  STORES.set(store, known)
  return known
}
