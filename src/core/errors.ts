/** Every error that Holdfast throws. Match on `code`; the store's own error is the `cause`. */

export type LockErrorCode = 'LOCK_TIMEOUT' | 'LOCK_LOST' | 'DEADLOCK' | 'BACKEND' | 'UNSUPPORTED' | 'CONFIG' | 'CLOSED'

/** The parent of all errors of this library. */
export class LockError extends Error {
  readonly code: LockErrorCode
  constructor(code: LockErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = new.target.name
    this.code = code
  }
}

/** The answer was no for as long as the caller was willing to wait. */
export class LockTimeoutError extends LockError {
  declare readonly code: 'LOCK_TIMEOUT'
  constructor(message: string, options?: ErrorOptions) {
    super('LOCK_TIMEOUT', message, options)
  }
}

/** The hold is over although nobody released it: stop writing. */
export class LockLostError extends LockError {
  declare readonly code: 'LOCK_LOST'
  constructor(message: string, options?: ErrorOptions) {
    super('LOCK_LOST', message, options)
  }
}

/** This very async context holds the lock already and would wait for itself. */
export class DeadlockError extends LockError {
  declare readonly code: 'DEADLOCK'
  constructor(message: string, options?: ErrorOptions) {
    super('DEADLOCK', message, options)
  }
}

/** The store failed, so the answer is unknown: neither yes nor no. */
export class BackendError extends LockError {
  declare readonly code: 'BACKEND'
  /** The store may answer when asked again (a broken connection, a failover); false: it will say the same. */
  readonly retryable: boolean
  constructor(message: string, options: ErrorOptions & { readonly retryable: boolean }) {
    super('BACKEND', message, options)
    this.retryable = options.retryable
  }
}

/** This store cannot do that, and says so before anything is taken. */
export class UnsupportedError extends LockError {
  declare readonly code: 'UNSUPPORTED'
  constructor(message: string, options?: ErrorOptions) {
    super('UNSUPPORTED', message, options)
  }
}

/** The call itself is wrong: a name, a duration, an option, a URL. */
export class ConfigError extends LockError {
  declare readonly code: 'CONFIG'
  constructor(message: string, options?: ErrorOptions) {
    super('CONFIG', message, options)
  }
}

/** The client was closed while this was under way. */
export class ClosedError extends LockError {
  declare readonly code: 'CLOSED'
  constructor(message: string, options?: ErrorOptions) {
    super('CLOSED', message, options)
  }
}

/** Our own errors say what they mean; anything else is the store's. */
export function asBackendError(store: string, error: unknown): LockError {
  if (error instanceof LockError) return error
  const message = error instanceof Error ? error.message : String(error)
  return new BackendError(`The ${store} store failed: ${message}`, { retryable: false, cause: error })
}
