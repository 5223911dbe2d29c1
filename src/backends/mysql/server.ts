import { ConfigError, UnsupportedError } from '../../core/errors.js'
import type { Connections } from './connections.js'
import { flag, type Rows, string } from './rows.js'
import { isInTransaction, isSyntaxError, storeError } from './store-error.js'

export interface ServerKind {
  readonly mariadb: boolean
}

const LOOK =
  "SELECT VERSION(), DATABASE() IS NULL, @@SESSION.group_concat_max_len < 1024, @@SESSION.autocommit = 0; SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'group_replication_single_primary_mode'); ROLLBACK"

/** Looks at the server once: what it is, and whether its locks are what they seem. */
export async function checkServer(connections: Connections): Promise<ServerKind> {
  const [first, variables] = await look(connections)
  const rows = [...(first ?? []), ...(variables ?? [])]
  const version = string(rows[0]?.[0])
  if (flag(rows[0]?.[1])) throw new ConfigError("Name the database for Holdfast's tables: mysql://host/DATABASE.")
  // A list of locks that was cut off in the middle would name a lock that is not ours.
  if (flag(rows[0]?.[2])) throw new ConfigError('Holdfast needs group_concat_max_len to be 1024 (its default) or more.')
  if (flag(rows[0]?.[3])) throw noAutocommit()
  const mariadb = /mariadb/i.test(version)
  const [major = 0, minor = 0, patch = 0] = version.split(/[.-]/).map(Number)
  const least = mariadb ? [10, 6, 0] : [8, 0, 1]
  if (!isAtLeast([major, minor, patch], least)) {
    throw new UnsupportedError(
      `Holdfast needs MariaDB 10.6 or MySQL 8.0.1 at least (SKIP LOCKED, window functions). This is ${version}.`,
    )
  }
  for (const [name, value] of rows.slice(1)) {
    if (string(name) === 'wsrep_on' && string(value) === 'ON') {
      throw new UnsupportedError(
        'This server is a node of a Galera cluster. Row locks and GET_LOCK hold on one node only there, so two clients on two nodes would both get the lock. Use a server outside the cluster.',
      )
    }
    if (string(name) === 'group_replication_single_primary_mode' && string(value) === 'OFF') {
      throw new UnsupportedError(
        'This server is in a multi-primary replication group. Row locks and GET_LOCK hold on one node only there. Use single-primary mode.',
      )
    }
  }
  return { mariadb }
}

async function look(connections: Connections): Promise<Rows[]> {
  try {
    return await connections.run(LOOK, 'looking at the server', { raw: true })
  } catch (error) {
    if (isInTransaction(error)) throw noAutocommit()
    if (!isSyntaxError(error)) throw storeError(error, 'looking at the server')
    throw new ConfigError(
      'Holdfast sends a transaction as one packet: create the mysql2 pool or connection with { multipleStatements: true }.',
    )
  }
}

/** Without it, every statement leaves a transaction open, in which the next one's isolation cannot be chosen. */
function noAutocommit(): ConfigError {
  return new ConfigError(
    "Holdfast needs connections with autocommit, and this pool's have it off. Turn it on for the pool Holdfast is given (SET autocommit = 1 on each new connection), or use connect(url), whose connections are its own.",
  )
}

function isAtLeast(version: readonly number[], least: readonly number[]): boolean {
  for (const [i, part] of least.entries()) {
    const own = version[i] ?? 0
    if (own !== part) return own > part
  }
  return true
}
