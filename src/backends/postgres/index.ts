import type { Backend } from '../../core/backend.js'
import { ConfigError } from '../../core/errors.js'
import type { PoolLike } from './connections.js'
import { LeaseBackend } from './lease.js'
import { checkSchema } from './schema.js'

export { schemaSql } from './schema.js'

export interface PostgresOptions {
  /** 'lease': tickets in a table, each with a lease. 'session': the server's own advisory locks. Default 'lease'. */
  readonly mode?: 'lease' | 'session'
  /** The schema that holds our tables and procedures. Default 'holdfast'. */
  readonly schema?: string
  /** Make the schema on first use when it is missing. Default true. */
  readonly migrate?: boolean
  /** The most connections for joins and releases; renewals and the inbox have one each besides. Default 4. */
  readonly connections?: number
  /** Listen for notifications on a connection of its own; false: poll. Default true. */
  readonly listen?: boolean
}

/** A backend that keeps its lines in PostgreSQL, on connections of its own made as the given `pg` Pool makes its. */
export function postgres(pool: PoolLike, options: PostgresOptions = {}): Backend {
  if (typeof pool?.options !== 'object' || !('Client' in pool)) {
    throw new ConfigError('postgres() takes a Pool of the package pg: postgres(new pg.Pool({ … })).')
  }
  const { mode = 'lease', schema = 'holdfast', migrate = true, connections = 4, listen = true } = options
  if (!Number.isInteger(connections) || connections < 1) {
    throw new ConfigError(`connections: ${connections} is not a whole number of 1 or more.`)
  }
  if (mode !== 'lease' && mode !== 'session') {
    throw new ConfigError(`mode: '${String(mode)}' is not one. Write 'lease' or 'session'.`)
  }
  return new LeaseBackend(pool, { schema: checkSchema(schema), migrate, connections, listen })
}
