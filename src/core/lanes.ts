import type { Backend, JoinRequest, LeaveRequest, RenewRequest, Standing } from './backend.js'
import { Batcher } from './batcher.js'
import type { Clock } from './clock.js'
import type { BackendError } from './errors.js'

/** A call without an answer is given up after this, and its outcome is unknown. */
export const CALL_TIMEOUT_MS = 5_000

/** The three ways to the store. Each gathers by itself, so that no join or leave can hold up a renewal. */
export class Lanes {
  readonly join: Batcher<JoinRequest, Standing>
  readonly renew: Batcher<RenewRequest, Standing>
  readonly leave: Batcher<LeaveRequest, boolean | BackendError>

  constructor(backend: Backend, clock: Clock, timeoutMs: number) {
    const maxBatch = () => backend.maxBatch
    const shared = { clock, maxBatch, timeoutMs, store: backend.name }
    const { worthPipelining } = backend
    this.join = new Batcher({ ...shared, worthPipelining, send: (items) => backend.join(items) })
    // Nobody waits for a renewal: few large calls are cheaper than many that overlap.
    this.renew = new Batcher({ ...shared, send: (items) => backend.renew(items) })
    this.leave = new Batcher({ ...shared, worthPipelining, send: (items) => backend.leave(items) })
  }

  close(): void {
    this.join.close()
    this.renew.close()
    this.leave.close()
  }
}
