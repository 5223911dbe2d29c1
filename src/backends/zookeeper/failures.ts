import { BackendError } from '../../core/errors.js'
import { CODE, ZooKeeperError } from './client/errors.js'

const FINAL: Record<number, string> = {
  [CODE.noAuth]: 'Give the URL a user and password that may create, read and delete there, or choose another path.',
  [CODE.authFailed]: 'Check the user and password of the URL.',
  [CODE.invalidAcl]: "The ACL 'creator' needs a user and password; give them, or use acl=open.",
  [CODE.unimplemented]: 'ZooKeeper 3.5 or newer is needed.',
}

/** What the store's failure means for a caller: which store, what it was doing, what to do next. */
export function failure(error: unknown, doing: string): BackendError {
  if (error instanceof BackendError) return error
  if (error instanceof ZooKeeperError) {
    const advice = FINAL[error.code]
    const why = error.message.split(':', 1)[0]
    return new BackendError(
      `ZooKeeper could not ${doing}: ${why}. ${advice ?? 'Whether it was done is unknown; it is worth trying again.'}`,
      { cause: error, retryable: advice === undefined },
    )
  }
  return new BackendError(`ZooKeeper could not ${doing}.`, { cause: error, retryable: false })
}
