import { resolve } from 'node:path'
import type { Backend } from '../../core/backend.js'
import { ConfigError } from '../../core/errors.js'
import { SqliteBackend } from './backend.js'

/** The locks of one machine, kept in a SQLite file that every process opens by the same path. */
export function sqlite(path: string): Backend {
  if (typeof path !== 'string' || path === '') {
    throw new ConfigError("sqlite: give the path of a file, such as '/var/lib/app/locks.db'.")
  }
  if (path.includes('\0')) throw new ConfigError('sqlite: the path has a NUL character, which no file can have.')
  if (path === ':memory:') {
    throw new ConfigError(
      "sqlite: ':memory:' would be seen by this client alone. Use the memory store ('memory:') within one process.",
    )
  }
  return new SqliteBackend(resolve(path))
}
