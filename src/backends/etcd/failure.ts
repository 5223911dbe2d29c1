import { BackendError } from '../../core/errors.js'
import { DEADLINE_EXCEEDED, RpcError, UNAUTHENTICATED, UNAVAILABLE } from './grpc.js'

const INVALID_ARGUMENT = 3
const NOT_FOUND = 5
const PERMISSION_DENIED = 7
const RESOURCE_EXHAUSTED = 8
const UNIMPLEMENTED = 12

/** The store's failure, in words that say what to do next. */
export function storeError(doing: string, cause: unknown): BackendError {
  if (cause instanceof BackendError) return cause
  const { retryable, advice } = judge(cause)
  const said = cause instanceof Error ? cause.message : String(cause)
  return new BackendError(`etcd: ${doing} failed: ${said}. ${advice}`, { retryable, cause })
}

function judge(cause: unknown): { retryable: boolean; advice: string } {
  if (!(cause instanceof RpcError)) {
    return isTlsError(cause)
      ? { retryable: false, advice: "Check the certificate authority ('ca') and the host's name." }
      : { retryable: true, advice: 'Check that the members are up and reachable.' }
  }
  if (isNoSpace(cause)) {
    return {
      retryable: false,
      advice: "Its space quota is used up: compact and defragment it, then run 'etcdctl alarm disarm'.",
    }
  }
  switch (cause.status) {
    case UNAUTHENTICATED:
      return { retryable: false, advice: 'Check the user and the password.' }
    case PERMISSION_DENIED:
      return { retryable: false, advice: "Give the user's role read and write permission for the prefix." }
    case INVALID_ARGUMENT:
      return cause.message.includes('authentication failed')
        ? { retryable: false, advice: 'Check the user and the password.' }
        : { retryable: false, advice: 'Holdfast needs etcd 3.4 or later.' }
    case UNIMPLEMENTED:
      return { retryable: false, advice: 'Holdfast needs etcd 3.4 or later.' }
    case DEADLINE_EXCEEDED:
    case UNAVAILABLE:
      return { retryable: true, advice: 'Check that a majority of the members is up and reachable.' }
    default:
      return { retryable: true, advice: "See the member's log." }
  }
}

/** A put names a lease that has ended. It fails the whole Txn it is in. */
export function isLeaseGone(error: unknown): boolean {
  return error instanceof RpcError && error.status === NOT_FOUND && error.message.includes('lease not found')
}

/** The quota is used up: puts and new leases are refused, deletes, reads and keep-alives still work. */
export function isNoSpace(error: unknown): boolean {
  return error instanceof RpcError && error.status === RESOURCE_EXHAUSTED && error.message.includes('space exceeded')
}

/** The token has ended or is older than a change of users; nothing of the call was done. */
export function isStaleToken(error: unknown): boolean {
  if (!(error instanceof RpcError)) return false
  return error.status === UNAUTHENTICATED || error.message.includes('auth store is old')
}

/** This member cannot reach a majority, or does not answer: another one may. */
export function isMemberTrouble(error: unknown): boolean {
  return error instanceof RpcError && (error.status === UNAVAILABLE || error.status === DEADLINE_EXCEEDED)
}

function isTlsError(cause: unknown): boolean {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  return /CERT|SSL|TLS|SELF_SIGNED|UNABLE_TO_VERIFY|ALTNAME/.test(code)
}
