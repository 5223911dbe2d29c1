import type { Backend, JoinRequest, LeaveRequest, RenewRequest, Standing } from './backend.js'
import { Batcher } from './batcher.js'
import type { Clock } from './clock.js'
import { BackendError, LockError } from './errors.js'

/** A call without an answer is given up after this, and its outcome is unknown. */
export const CALL_TIMEOUT_MS = 5_000

/** The three ways to the store. Each gathers by itself, so that no join or leave can hold up a renewal. */
export class Lanes {
  readonly join: Batcher<JoinRequest, Standing>
  readonly renew: Batcher<RenewRequest, Standing>
  readonly leave: Batcher<LeaveRequest, boolean | BackendError>

  constructor(backend: Backend, clock: Clock, timeoutMs: number) {
    const maxBatch = () => backend.maxBatch
    const describe = `The ${backend.name} store`
    const shared = { clock, maxBatch, timeoutMs, describe, worthPipelining: backend.worthPipelining }
    this.join = new Batcher({ ...shared, send: (items) => attempt(backend, items, () => backend.join(items)) })
    this.renew = new Batcher({ ...shared, send: (items) => attempt(backend, items, () => backend.renew(items)) })
    this.leave = new Batcher({ ...shared, send: (items) => attempt(backend, items, () => backend.leave(items)) })
  }

  close(): void {
    this.join.close()
    this.renew.close()
    this.leave.close()
  }
}

/** Whatever a backend throws is an unknown outcome with the store's name on it, never a "no". */
async function attempt<Out>(backend: Backend, items: readonly unknown[], call: () => Promise<Out[]>): Promise<Out[]> {
  let results: Out[]
  try {
    results = await call()
  } catch (error) {
    throw asBackendError(backend.name, error)
  }
  if (results.length !== items.length) {
    throw new BackendError(`The ${backend.name} backend answered ${results.length} of ${items.length} items.`, {
      retryable: false,
    })
  }
  return results
}

/** Our own errors say what they mean; anything else is the store's. */
export function asBackendError(store: string, error: unknown): LockError {
  if (error instanceof LockError) return error
  const message = error instanceof Error ? error.message : String(error)
  return new BackendError(`The ${store} store failed: ${message}`, { retryable: false, cause: error })
}
