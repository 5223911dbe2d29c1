import type { Guarantees } from '../../core/backend.js'

/** What a majority of independent servers promises. */
export function guarantees(maxTtlMs: number, minTtlMs: number): Guarantees {
  return {
    scope: 'network',
    order: 'none',
    wake: 'poll',
    fence: 'clock',
    lease: 'ticket',
    handover: false,
    atomicGroup: false,
    minHold: 'store',
    // A semaphore cannot be kept by majorities: {1,2,3}, {1,4,5} and {2,4,…} can each be below the capacity on
    // every server and above it in sum. Two tickets that exclude each other must meet on one server: those can.
    kinds: ['mutex', 'rw'],
    survives: ['client-crash', 'store-restart', 'minority-loss'],
    minTtlMs,
    maxTtlMs,
    ttlGranularityMs: 1,
    sentence:
      'A majority of independent servers decides, and any minority may be lost, wiped by a restart or out of reach; ' +
      'what is not survived is data flushed without a restart (on a majority, or on one server of a hold that has a ' +
      'bare majority, until its next renewal), and a server whose clock steps forward by d ends its leases d early and ' +
      'can so let two hold when a majority does.',
  }
}
