import type { Backend } from '../../core/backend.js'
import { ConfigError } from '../../core/errors.js'
import { LeaseBackend } from './lease-backend.js'
import { checkPrefix, PREFIX } from './schema.js'
import { SessionBackend } from './session/session-backend.js'
import { lender, type MysqlSource } from './source.js'
import type { WatchOptions } from './watch.js'

export { fenceGuard } from './fence-guard.js'
export { schemaSql } from './schema.js'
export type { MysqlSource } from './source.js'

/** More than a server has by far; a number like this is a slip. */
const MOST_CONNECTIONS = 1_000
const LONGEST_POLL_MS = 60_000

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
  if (!Number.isInteger(connections) || connections < 1 || connections > MOST_CONNECTIONS) {
    throw new ConfigError(`connections: ${connections} is not a whole number from 1 to ${MOST_CONNECTIONS}.`)
  }
  if (mode === 'session') {
    if (typeof source !== 'function') {
      throw new ConfigError(
        'Session mode needs connections of its own: give a function that opens one, or use connect(url).',
      )
    }
    return new SessionBackend(source, { prefix, connections })
  }
  return new LeaseBackend(lender(source), { prefix, connections, poll: checkPoll(options.poll) })
}

function checkPoll({ minMs, maxMs }: NonNullable<MysqlOptions['poll']> = {}): WatchOptions {
  for (const [name, ms] of Object.entries({ minMs, maxMs })) {
    if (ms === undefined || (ms > 0 && ms <= LONGEST_POLL_MS)) continue
    throw new ConfigError(`poll: ${name} ${ms} is not a number of ms above 0, and ${LONGEST_POLL_MS} at most.`)
  }
  // Where one is given, the other's default gives way.
  const poll = { minMs: minMs ?? Math.min(2, maxMs ?? 2), maxMs: maxMs ?? Math.max(100, minMs ?? 100) }
  if (poll.minMs > poll.maxMs) {
    throw new ConfigError(`poll: minMs ${poll.minMs} is more than maxMs ${poll.maxMs}.`)
  }
  return poll
}
