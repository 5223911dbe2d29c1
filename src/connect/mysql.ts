import { isIP } from 'node:net'
import type { Connection } from 'mysql2/promise'
import { Connections } from '../backends/mysql/connections.js'
import { within } from '../backends/mysql/deadlines.js'
import { type MysqlOptions, mysql, schemaSql } from '../backends/mysql/index.js'
import { createSchema, PREFIX } from '../backends/mysql/schema.js'
import { lender } from '../backends/mysql/source.js'
import { noAnswer } from '../backends/mysql/store-error.js'
import type { Backend } from '../core/backend.js'
import { ConfigError } from '../core/errors.js'
import { checkQuery, type StoreUrl } from './url.js'

const CONNECT_TIMEOUT_MS = 4_000
/** Short: the next host must have its turn before whoever asks has given up. */
const LOOK_TIMEOUT_MS = 2_000

/** mysql://user:password@host:3306/database?mode=session&prefix=holdfast_&connections=6&tls=true, also mariadb:// */
export async function open(url: StoreUrl): Promise<Backend> {
  checkQuery(url, ['mode', 'prefix', 'connections', 'tls'])
  const mode = url.query.get('mode') ?? 'lease'
  if (mode !== 'lease' && mode !== 'session') {
    throw new ConfigError("The URL's mode must be 'lease' or 'session'.")
  }
  const prefix = url.query.get('prefix')
  const connections = url.query.get('connections')
  const options: MysqlOptions = {
    mode,
    ...(prefix === null ? undefined : { prefix }),
    ...(connections === null ? undefined : { connections: Number(connections) }),
  }
  return mysql(await opener(url), options)
}

/** What `holdfast migrate` shows and runs. */
export async function migration(url: StoreUrl): Promise<{ print(): string; run(): Promise<void> }> {
  checkQuery(url, ['mode', 'prefix', 'connections', 'tls'])
  const prefix = url.query.get('prefix') ?? PREFIX
  return {
    print: () => schemaSql(prefix),
    async run() {
      const connections = new Connections(lender(await opener(url)), 1)
      try {
        await createSchema(connections, prefix)
      } finally {
        connections.close()
      }
    },
  }
}

/** Opens connections to the first of the URL's hosts that takes writes. */
async function opener(url: StoreUrl): Promise<() => Promise<Connection>> {
  const { createConnection } = await driver()
  const database = url.path.replace(/^\//, '')
  if (database === '') throw new ConfigError(`Name the database for Holdfast's tables: ${url.scheme}//host/DATABASE.`)
  const hosts = url.hosts.length === 0 ? [{ host: 'localhost' }] : url.hosts
  const tls = url.query.get('tls')
  if (tls !== null && tls !== 'true' && tls !== 'false')
    throw new ConfigError("The URL's tls must be 'true' or 'false'.")
  const common = {
    database,
    ...(url.user === undefined ? undefined : { user: url.user }),
    ...(url.password === undefined ? undefined : { password: url.password }),
    multipleStatements: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
  }
  return async () => {
    let failure: unknown
    for (const [i, { host, port }] of hosts.entries()) {
      try {
        const connection = await createConnection({
          ...common,
          host,
          ...(port === undefined ? undefined : { port }),
          // For an address mysql2 gives TLS no name to compare with, and it would be compared with 'localhost'.
          ...(tls === 'true' ? { ssl: { verifyIdentity: isIP(host) === 0 } } : undefined),
        })
        if (i === hosts.length - 1 || !(await isReadOnly(connection))) return connection
        connection.destroy()
      } catch (error) {
        failure = error
      }
    }
    throw failure
  }
}

/** With several hosts, the one to use is the one that takes writes. */
async function isReadOnly(connection: Connection): Promise<boolean> {
  try {
    const asked = connection.query({ sql: 'SELECT @@GLOBAL.read_only + 0', rowsAsArray: true })
    const [rows] = await within(asked, LOOK_TIMEOUT_MS, () => noAnswer('looking at the server', LOOK_TIMEOUT_MS))
    return Number((rows as unknown as unknown[][])[0]?.[0]) === 1
  } catch (error) {
    connection.destroy()
    throw error
  }
}

async function driver(): Promise<typeof import('mysql2/promise')> {
  try {
    return await import('mysql2/promise')
  } catch (cause) {
    throw new ConfigError('The mysql:// and mariadb:// stores need the mysql2 package: run: npm install mysql2', {
      cause,
    })
  }
}
