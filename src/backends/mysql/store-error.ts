import { BackendError, LockError } from '../../core/errors.js'

/** What a mysql2 error carries. */
interface StoreError {
  readonly code?: string
  readonly errno?: number
  readonly sqlMessage?: string
}

/** Row locks were not to be had, or crossed: the transaction did nothing and may be sent again. */
const CROSSED = new Set([1205, 1213, 3572])

/** The server said no for now: too many connections, shutting down, killed, timed out, failing over. */
const PASSING = new Set([
  1040, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1226, 1317, 1927, 1969, 3024, 3572, 4031,
])

/** The server takes no writes: a replica, or a primary that was demoted. */
const READ_ONLY = new Set([1290, 1792, 1836, 3100])

/** What to do about the errors that asking again does not help. */
const ADVICE: Record<number, string> = {
  1044: 'Grant the user access to the database.',
  1045: 'Check user and password.',
  1049: 'Create the database, or name another in the URL.',
  1142: "Grant SELECT, INSERT, UPDATE and DELETE on Holdfast's tables; to create them, CREATE as well, or run what `holdfast migrate --print` prints.",
  1146: 'Run what `holdfast migrate --print` prints.',
  1665: 'With binlog_format=STATEMENT the server cannot log these writes: use MIXED or ROW.',
}

function asStoreError(error: unknown): StoreError {
  return typeof error === 'object' && error !== null ? error : {}
}

/** True when the transaction lost a race for row locks and may be sent again as it is. */
export function isCrossed(error: unknown): boolean {
  return CROSSED.has(asStoreError(error).errno ?? 0)
}

/** True when the server answered with an error, so that the connection itself is in order. */
export function isAnswer(error: unknown): boolean {
  const { errno, sqlMessage } = asStoreError(error)
  return sqlMessage !== undefined && errno !== undefined && errno > 1000
}

export function isMissingTable(error: unknown): boolean {
  return asStoreError(error).errno === 1146
}

/** True where several statements in one packet are not allowed. */
export function isSyntaxError(error: unknown): boolean {
  return asStoreError(error).errno === 1064
}

/** True where a transaction was open before ours: autocommit is off. */
export function isInTransaction(error: unknown): boolean {
  return asStoreError(error).errno === 1568
}

/** True when this connection's server will take no writes: look for another. */
export function isReadOnly(error: unknown): boolean {
  return READ_ONLY.has(asStoreError(error).errno ?? 0)
}

/** Any failure as ours: which store, what it was doing, what to do next. */
export function storeError(error: unknown, doing: string): LockError {
  if (error instanceof LockError) return error
  const { errno = 0, code, sqlMessage } = asStoreError(error)
  const said = sqlMessage ?? (error instanceof Error && error.message !== '' ? error.message : (code ?? String(error)))
  const readOnly = READ_ONLY.has(errno)
  // What no server has answered is the connection's failure.
  const retryable = readOnly || PASSING.has(errno) || !isAnswer(error)
  const advice = readOnly ? ' The server is read-only: a replica, or a failover is under way.' : (ADVICE[errno] ?? '')
  const text = `MySQL failed while ${doing}: ${said}${/[.!?]$/.test(said) ? '' : '.'}${advice === '' ? '' : ` ${advice.trim()}`}`
  return new BackendError(text, { retryable, cause: error })
}

/** A call that had no answer in time. */
export function noAnswer(doing: string, ms: number): BackendError {
  return new BackendError(`MySQL did not answer within ${ms} ms while ${doing}.`, { retryable: true })
}
