import type { Guarantees } from '../../core/backend.js'
import { KINDS } from '../../core/line.js'

/** What a SQLite file on one machine promises. */
export const GUARANTEES: Guarantees = {
  scope: 'machine',
  order: 'fifo',
  wake: 'push',
  fence: 'strict',
  lease: 'ticket',
  handover: true,
  atomicGroup: true,
  minHold: 'store',
  kinds: KINDS,
  survives: ['client-crash', 'store-restart'],
  minTtlMs: 20,
  ttlGranularityMs: 1,
  sentence:
    'For all processes of one machine that can open the file: leases run on the monotonic clock of the boot, so no step of the wall clock matters; the fence never goes back unless the file is deleted or restored from a copy.',
}
