import { BackendError } from '../../core/errors.js'

/** SQLSTATE classes after which the same call may well succeed: the connection, a failover, a time-out, a rollback. */
const PASSING = /^(08|40|53|57|55P03|25006|25P0[34]|58000|XX000)/

/** A server that shuts down, is read-only or cannot be reached: the next connection may find a better one. */
const CONNECTION_IS_SPENT = /^(08|57P|25006|25P0[34])/

interface PgError extends Error {
  readonly code?: string
}

/** The store's error as ours: which call, what it said, what to do, and whether to ask again. */
export function failure(doing: string, cause: unknown): BackendError {
  if (cause instanceof BackendError) return cause
  const error = cause as PgError
  const code = typeof error?.code === 'string' ? error.code : ''
  const retryable = !isSqlState(code) || PASSING.test(code)
  const said = error instanceof Error && error.message !== '' ? error.message : code
  return new BackendError(`PostgreSQL: ${doing} failed: ${said}.${advice(code)}`, { retryable, cause })
}

/** Whether a connection that gave this error must not be used again. */
export function spendsConnection(cause: unknown): boolean {
  const code = (cause as PgError | undefined)?.code ?? ''
  return !isSqlState(code) || CONNECTION_IS_SPENT.test(code)
}

/** Whether the error says that our tables or procedures are not there. */
export function isMissing(cause: unknown): boolean {
  return /^(3F000|42P01|42883|42703)$/.test((cause as PgError | undefined)?.code ?? '')
}

/** A SQLSTATE is five characters with a digit among them; Node's own codes (ECONNREFUSED, EPIPE) are letters. */
function isSqlState(code: string): boolean {
  return /^(?=.*\d)[0-9A-Z]{5}$/.test(code)
}

function advice(code: string): string {
  if (code === 'ECONNREFUSED' || code === 'ENOTFOUND') return ' Is the host and port right, and the server up?'
  if (code.startsWith('28')) return ' Check the user and the password.'
  if (code === '3D000') return ' Create the database, or name another in the URL.'
  if (code === '42501')
    return " Let an owner run what 'holdfast migrate --print' prints, the GRANTs at its end included."
  if (/^(3F000|42P01|42883|42703)$/.test(code)) return " The schema is missing or old: run 'holdfast migrate'."
  if (code === '25006') return ' The server is read-only: a replica, or a failover under way.'
  if (code === '53300') return ' The server has no connection left: raise max_connections or use a pooler.'
  if (code === '57014') return ' A statement_timeout below the time of one call stops it.'
  return ''
}
