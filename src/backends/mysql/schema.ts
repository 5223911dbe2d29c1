import { readFileSync } from 'node:fs'
import { BackendError, ConfigError } from '../../core/errors.js'
import type { Connections } from './connections.js'
import { number, string } from './rows.js'
import { text } from './sql-text.js'
import { isMissingTable, storeError } from './store-error.js'

/** The schema that this version of Holdfast reads and writes. */
const VERSION = 1

/** The tables' common prefix. */
export const PREFIX = 'holdfast_'

/** Two processes that start at once make the schema one after the other; the second finds it there. */
const CREATE_WAIT_S = 60

/** Names go into SQL as they are, so they are kept to what needs no quotes. */
export function checkPrefix(prefix: string): string {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,39}$/.test(prefix)) {
    throw new ConfigError("The table prefix must be 1 to 40 letters, digits and '_', not starting with a digit.")
  }
  return prefix
}

/** The statements that make what Holdfast needs, for a database administrator to run. */
export function schemaSql(prefix: string = PREFIX): string {
  const sixteen = Array.from({ length: 16 }, (_, n) => (n === 0 ? 'SELECT 0 AS n' : `SELECT ${n}`)).join(' UNION ALL ')
  return readFileSync(new URL('./schema.sql', import.meta.url), 'utf8')
    .replaceAll('{prefix}', checkPrefix(prefix))
    .replaceAll('{sixteen}', sixteen)
}

/** Makes the schema where it is missing. Safe when many processes start at once. */
export async function ensureSchema(connections: Connections, prefix: string): Promise<void> {
  if ((await schemaVersion(connections, prefix)) === undefined) await createSchema(connections, prefix)
  const version = await schemaVersion(connections, prefix)
  if (version === VERSION) return
  throw new BackendError(
    `MySQL has Holdfast's schema ${version ?? 'in part'}, and this version needs ${VERSION}. ` +
      (version !== undefined && version > VERSION ? 'Update holdfast.' : 'Run what `holdfast migrate --print` prints.'),
    { retryable: false },
  )
}

/** Runs `schemaSql`, one process at a time. */
export async function createSchema(connections: Connections, prefix: string): Promise<void> {
  const lock = `SELECT GET_LOCK(CONCAT('holdfast:', MD5(CONCAT(DATABASE(), '/', ${text(prefix)}))), ${CREATE_WAIT_S})`
  const unlock = `DO RELEASE_LOCK(CONCAT('holdfast:', MD5(CONCAT(DATABASE(), '/', ${text(prefix)}))))`
  const [rows] = await connections.run('SELECT VERSION()', 'looking at the server')
  const all = schemaSql(prefix).replace(/^--.*$/gm, '')
  // What only MariaDB reads would be an empty statement elsewhere, which is an error.
  const sql = /mariadb/i.test(string(rows?.[0]?.[0])) ? all : all.replace(/\/\*M!.*?\*\/;/gs, '')
  const packet = [lock, sql.trim().replace(/;\s*$/, ''), unlock].join(';')
  // A connection of the application's pool must not keep the lock when the tables cannot be made.
  const options = { timeoutMs: (CREATE_WAIT_S + 60) * 1_000, undo: unlock }
  const [locked] = await connections.run(packet, 'creating its tables', options)
  if (locked?.[0]?.[0] === '1') return
  throw new BackendError(
    `MySQL: another session has been creating Holdfast's tables for more than ${CREATE_WAIT_S} s. Look at what it does (SHOW PROCESSLIST), and try again.`,
    { retryable: true },
  )
}

async function schemaVersion(connections: Connections, prefix: string): Promise<number | undefined> {
  try {
    const [rows] = await connections.run(`SELECT version FROM ${prefix}schema`, 'reading its schema version', {
      raw: true,
    })
    const version = rows?.[0]?.[0]
    return version === undefined ? undefined : number(version)
  } catch (error) {
    if (isMissingTable(error)) return undefined
    throw storeError(error, 'reading its schema version')
  }
}
