import type { Backend } from '../../core/backend.js'
import { ConfigError } from '../../core/errors.js'
import { LeaseBackend } from './lease-backend.js'
import { checkPrefix, PREFIX } from './schema.js'
import { lender, type MysqlSource } from './source.js'

export { fenceGuard } from './fence-guard.js'
export { schemaSql } from './schema.js'
export type { MysqlSource } from './source.js'

export interface MysqlOptions {
  /** 'lease' (default): rows with a lease each. 'session': the server's own GET_LOCK, held by a connection. */
  readonly mode?: 'lease' | 'session'
  /** What the names of Holdfast's tables begin with. */
  readonly prefix?: string
  /** The most connections that this client uses at once. */
  readonly connections?: number
  /** The shortest and the longest pause between two looks at a line in which tickets of this process wait. */
  readonly poll?: { readonly minMs?: number; readonly maxMs?: number }
}

/** Lines in MySQL 8 or MariaDB: in tables of their own, or as the server's own locks. */
export function mysql(source: MysqlSource, options: MysqlOptions = {}): Backend {
  const prefix = checkPrefix(options.prefix ?? PREFIX)
  const connections = options.connections ?? 6
  if (!Number.isInteger(connections) || connections < 3) throw new ConfigError('MySQL needs at least 3 connections.')
  const poll = { minMs: options.poll?.minMs ?? 2, maxMs: options.poll?.maxMs ?? 100 }
  return new LeaseBackend(lender(source), { prefix, connections, poll })
}
