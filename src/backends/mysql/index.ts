import type { Backend } from '../../core/backend.js'
import { ConfigError } from '../../core/errors.js'
import { LeaseBackend } from './lease-backend.js'
import { checkPrefix, PREFIX } from './schema.js'
import { SessionBackend } from './session/session-backend.js'
import { lender, type MysqlSource } from './source.js'

export { fenceGuard } from './fence-guard.js'
export { schemaSql } from './schema.js'
export type { MysqlSource } from './source.js'

export interface MysqlOptions {
  /** 'lease' (default): rows with a lease each. 'session': the server's own GET_LOCK, held by a connection. */
  readonly mode?: 'lease' | 'session'
  /** What the names of Holdfast's tables begin with. */
  readonly prefix?: string
  /**
   * Lease mode: the most connections for joins and releases (default 4); renewals and looks have one each besides.
   * Session mode: the most connections that wait, or hold what they waited for (default 8), besides two for the rest.
   */
  readonly connections?: number
  /** The shortest and the longest pause between two looks at a line in which tickets of this process wait. */
  readonly poll?: { readonly minMs?: number; readonly maxMs?: number }
}

/** Lines in MySQL 8 or MariaDB: in tables of their own, or as the server's own locks. */
export function mysql(source: MysqlSource, options: MysqlOptions = {}): Backend {
  const prefix = checkPrefix(options.prefix ?? PREFIX)
  const mode = options.mode ?? 'lease'
  if (mode !== 'lease' && mode !== 'session')
    throw new ConfigError(`mode: '${String(mode)}' is not one. Write 'lease' or 'session'.`)
  const connections = options.connections ?? (mode === 'session' ? 8 : 4)
  if (!Number.isInteger(connections) || connections < 1) {
    throw new ConfigError(`connections: ${connections} is not a whole number of 1 or more.`)
  }
  if (mode === 'session') {
    if (typeof source !== 'function') {
      throw new ConfigError(
        'Session mode needs connections of its own: give a function that opens one, or use connect(url).',
      )
    }
    return new SessionBackend(source, { prefix, connections })
  }
  const poll = { minMs: options.poll?.minMs ?? 2, maxMs: options.poll?.maxMs ?? 100 }
  return new LeaseBackend(lender(source), { prefix, connections, poll })
}
