import type { Guarantees } from '../../core/backend.js'
import { KINDS } from '../../core/line.js'

/** What Redis promises, as it is set up. */
export function guarantees(cluster: boolean, replicas: number): Guarantees {
  return {
    scope: 'network',
    order: 'fifo',
    wake: 'push',
    fence: 'clock',
    lease: 'ticket',
    handover: true,
    atomicGroup: !cluster,
    minHold: 'store',
    kinds: KINDS,
    // A replica that takes over may lack the last writes unless they were waited for; a restart loses what
    // the server had not written to disk, and Redis alone cannot say how much that is.
    survives: replicas > 0 ? ['client-crash', 'store-failover'] : ['client-crash'],
    minTtlMs: 10,
    ttlGranularityMs: 1,
    sentence:
      'One Redis decides: a server or replica that lost the last writes can let two hold, and the fence then still ' +
      'grows unless its clock is behind; a step of its clock forward by d shortens every lease by d, one backward ' +
      'lengthens the lease of a crashed holder by d.',
  }
}
