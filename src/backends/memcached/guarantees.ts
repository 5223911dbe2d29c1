import type { Guarantees } from '../../core/backend.js'

/** A line is kept for a day after it was last written or renewed, so no ticket may live longer than half of that. */
export const LINE_SECONDS: number = 24 * 60 * 60
const MAX_TTL_MS = (LINE_SECONDS / 2) * 1_000

export const GUARANTEES: Guarantees = {
  scope: 'network',
  order: 'fifo',
  wake: 'poll',
  fence: 'none',
  lease: 'ticket',
  handover: true,
  atomicGroup: false,
  minHold: 'store',
  kinds: ['mutex', 'rw', 'semaphore'],
  survives: ['client-crash'],
  minTtlMs: 100,
  maxTtlMs: MAX_TTL_MS,
  ttlGranularityMs: 1_000,
  sentence:
    'Efficiency only: memcached may forget anything at any time (eviction, flush, restart), and then two may hold until the first renews; order is first come, first served as long as nothing is forgotten, fences may repeat, and a step of the wall clock changes nothing because memcached counts with a monotonic one.',
}
