import type { Prepared } from '../prepared.js'

/**
 * The statements of session mode. The key of a line is the 64-bit hash that anybody can compute in SQL:
 * `pg_advisory_lock(hashtextextended('mutex:NAME', 0))` excludes us, and we exclude it.
 * The fence is drawn in the same statement, once the lock is held.
 */

const KEY = 'hashtextextended(q.line, 0)'
const ONE_KEY = 'hashtextextended($1, 0)'
const EACH = 'FROM unnest($1::text[], $2::boolean[]) WITH ORDINALITY q(line, shared, i) ORDER BY q.i'

/** The statements that draw a fence, for one schema. `one` is the same for a single lock, what a quiet client does most. */
export interface Draws {
  readonly tryAll: Prepared
  readonly tryOne: Prepared
  /** Waits for one lock in the server's own queue. */
  readonly waitAlone: Prepared
  readonly waitShared: Prepared
}

export function draws(schema: string): Draws {
  const fence = `nextval('"${schema}".ord')::text`
  const wait = (lock: string): string =>
    `SELECT CASE WHEN ${lock}(${ONE_KEY})::text IS NOT NULL THEN ${fence} END AS fence`
  return {
    tryAll: {
      name: 'a join (session mode)',
      text: `SELECT CASE WHEN CASE WHEN q.shared THEN pg_try_advisory_lock_shared(${KEY})
        ELSE pg_try_advisory_lock(${KEY}) END THEN ${fence} END AS fence ${EACH}`,
    },
    tryOne: {
      name: 'a join of one (session mode)',
      text: `SELECT CASE WHEN CASE WHEN $2::boolean THEN pg_try_advisory_lock_shared(${ONE_KEY})
        ELSE pg_try_advisory_lock(${ONE_KEY}) END THEN ${fence} END AS fence`,
    },
    waitAlone: { name: 'a wait (session mode)', text: wait('pg_advisory_lock') },
    waitShared: { name: 'a shared wait (session mode)', text: wait('pg_advisory_lock_shared') },
  }
}

/** Whether another session would get a shared lock now: not when a writer waits. */
export const PROBE: Prepared = {
  name: 'a probe (session mode)',
  text: `SELECT CASE WHEN pg_try_advisory_lock_shared(${KEY})
    THEN pg_advisory_unlock_shared(${KEY}) ELSE false END::text AS free ${EACH}`,
}

export const UNLOCK: Prepared = {
  name: 'a release (session mode)',
  text: `SELECT CASE WHEN q.shared THEN pg_advisory_unlock_shared(${KEY})
    ELSE pg_advisory_unlock(${KEY}) END::text AS freed ${EACH}`,
}

export const UNLOCK_ONE: Prepared = {
  name: 'a release of one (session mode)',
  text: `SELECT CASE WHEN $2::boolean THEN pg_advisory_unlock_shared(${ONE_KEY})
    ELSE pg_advisory_unlock(${ONE_KEY}) END::text AS freed`,
}

export const BEAT: Prepared = { name: 'a heartbeat', text: 'SELECT 1' }

export const KEEP_FOR: Prepared = {
  name: 'a setting',
  text: "SELECT set_config('idle_session_timeout', $1, false)",
}

export const CANCEL: Prepared = { name: 'a cancel', text: 'SELECT pg_cancel_backend($1)::text AS sent' }

/**
 * Whether that session has its lock, with the answer still on its way, or stands in the queue. Neither: its statement
 * has not arrived, or the session is gone and we were not told.
 */
export const PLACE: Prepared = {
  name: 'a look',
  text: `SELECT CASE WHEN bool_or(granted) THEN 'has' WHEN count(*) > 0 THEN 'waits' ELSE 'none' END AS place
    FROM pg_locks WHERE locktype = 'advisory' AND pid = $1`,
}
