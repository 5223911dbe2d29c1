/**
 * The statements of session mode. The key of a line is the 64-bit hash that anybody can compute in SQL:
 * `pg_advisory_lock(hashtextextended('mutex:NAME', 0))` excludes us, and we exclude it.
 * The fence is drawn in the same statement, once the lock is held.
 */

const KEY = 'hashtextextended(q.line, 0)'

const EACH = 'FROM unnest($1::text[], $2::boolean[]) WITH ORDINALITY q(line, shared, i) ORDER BY q.i'

/** Tries each lock; `fence` is null where it was not to be had. */
export function tryLocks(schema: string): string {
  return `/* hf try */ SELECT CASE WHEN CASE WHEN q.shared THEN pg_try_advisory_lock_shared(${KEY})
      ELSE pg_try_advisory_lock(${KEY}) END THEN nextval('"${schema}".ord')::text END AS fence ${EACH}`
}

/** Whether another session would get a shared lock now: not when a writer waits. */
export const PROBE: string = `/* hf probe */ SELECT CASE WHEN pg_try_advisory_lock_shared(${KEY})
    THEN pg_advisory_unlock_shared(${KEY}) ELSE false END::text AS free ${EACH}`

export const UNLOCK: string = `/* hf unlock */ SELECT CASE WHEN q.shared THEN pg_advisory_unlock_shared(${KEY})
    ELSE pg_advisory_unlock(${KEY}) END::text AS freed ${EACH}`

/** Waits for one lock in the server's own queue. */
export function waitFor(schema: string, shared: boolean): string {
  const lock = shared ? 'pg_advisory_lock_shared' : 'pg_advisory_lock'
  return `/* hf wait ${shared ? 'shared' : 'alone'} */ SELECT CASE WHEN ${lock}(hashtextextended($1, 0))::text IS NOT NULL
    THEN nextval('"${schema}".ord')::text END AS fence`
}

export const CANCEL = '/* hf cancel */ SELECT pg_cancel_backend($1)::text AS sent'

/** Whether the server has given the lock to that session, whose answer may still be on its way. */
export const HAS_LOCK = `/* hf has */ SELECT EXISTS (
    SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = $1
  )::text AS has`
