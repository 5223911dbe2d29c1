import type { Guarantees } from '../../core/backend.js'
import { KINDS } from '../../core/line.js'

/** What the line on ZooKeeper promises, but for the length of its session. */
export const GUARANTEES: Omit<Guarantees, 'minTtlMs'> = {
  scope: 'network',
  order: 'fifo',
  wake: 'push',
  fence: 'strict',
  lease: 'session',
  handover: false,
  atomicGroup: true,
  minHold: 'process',
  kinds: KINDS,
  survives: ['client-crash', 'store-restart', 'store-failover', 'minority-loss'],
  fixedTtl: true,
  ttlGranularityMs: 1,
  sentence:
    "A hold lasts as long as the client's session, whatever its ttl says: the servers end a session by the monotonic clock of their leader, so no step of a clock matters.",
}

/**
 * A dead holder stands until its session ends, whatever its ttl says: the least that is promised is the session that was
 * asked for, and once a server has answered, the one that it gave.
 */
export class SessionPromise {
  #guarantees: Guarantees

  constructor(guarantees: Omit<Guarantees, 'minTtlMs'>, sessionMs: number) {
    this.#guarantees = { ...guarantees, minTtlMs: sessionMs }
  }

  get guarantees(): Guarantees {
    return this.#guarantees
  }

  given(sessionMs: number): void {
    if (sessionMs !== this.#guarantees.minTtlMs) this.#guarantees = { ...this.#guarantees, minTtlMs: sessionMs }
  }
}
