import type { Backend } from '../../core/backend.js'
import { ConfigError } from '../../core/errors.js'
import { type Dial, dialLike, type PoolLike } from './connections.js'
import { LeaseBackend } from './lease.js'
import { SessionBackend } from './session/backend.js'
import { checkSchema, DEFAULT_SCHEMA } from './schema.js'

export type { Dial, PoolLike } from './connections.js'
export { fenceGuard, type Queryable } from './fence-guard.js'
export { DEFAULT_SCHEMA, schemaSql } from './schema.js'
export { runMigration } from './setup.js'

/** More than any server has for one client: such a number is a slip. */
const MOST_CONNECTIONS = 1_000

export interface PostgresOptions {
  /** 'lease': tickets in a table, each with a lease. 'session': the server's own advisory locks. Default 'lease'. */
  readonly mode?: 'lease' | 'session'
  /** The schema that holds our tables and procedures. Default 'holdfast'. */
  readonly schema?: string
  /** Make the schema on first use when it is missing. Default true. */
  readonly migrate?: boolean
  /**
   * Lease mode: the most connections for joins and releases (default 4); renewals and the inbox have one each besides.
   * Session mode: the most sessions that wait, or hold what they waited for (default 8), besides four for the rest.
   */
  readonly connections?: number
  /** Listen for notifications on a connection of its own; false: poll. Default true. */
  readonly listen?: boolean
}

/**
 * A backend that keeps its lines in PostgreSQL, on a few connections of its own: made as the given `pg` Pool
 * makes its, or by the given function.
 */
export function postgres(source: PoolLike | Dial, options: PostgresOptions = {}): Backend {
  const { mode = 'lease', schema = DEFAULT_SCHEMA, migrate = true, listen = true } = options
  const { connections = mode === 'session' ? 8 : 4 } = options
  if (!Number.isInteger(connections) || connections < 1 || connections > MOST_CONNECTIONS) {
    throw new ConfigError(`connections: ${connections} is not a whole number from 1 to ${MOST_CONNECTIONS}.`)
  }
  if (mode !== 'lease' && mode !== 'session') {
    throw new ConfigError(`mode: '${String(mode)}' is not one. Write 'lease' or 'session'.`)
  }
  checkSchema(schema)
  if (mode === 'session') return new SessionBackend(dialOf(source), { schema, migrate, connections })
  return new LeaseBackend(dialOf(source), { schema, migrate, connections, listen })
}

function dialOf(source: PoolLike | Dial): Dial {
  if (typeof source === 'function') return source
  if (typeof source?.options === 'object' && 'Client' in source) return dialLike(source)
  throw new ConfigError('postgres() takes a Pool of the package pg: postgres(new pg.Pool({ … })).')
}
