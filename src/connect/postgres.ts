import type { Client } from 'pg'
import { destroy } from '../backends/postgres/destroy.js'
import {
  DEFAULT_SCHEMA,
  type Dial,
  type PostgresOptions,
  postgres,
  runMigration,
  schemaSql,
} from '../backends/postgres/index.js'
import { watched } from '../backends/postgres/watchdog.js'
import type { Backend } from '../core/backend.js'
import { ConfigError } from '../core/errors.js'
import { checkQuery, type StoreUrl } from './url.js'

/** Ours, and those of the server's own URLs that are handed on to pg as they are. */
const OWN = ['mode', 'schema', 'connections', 'listen', 'migrate']
const HANDED_ON = ['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'application_name', 'host']

/** What pg knows. Another word would mean a connection without TLS, or one that checks less than was meant. */
const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify']

const CONNECT_TIMEOUT_MS = 4_000

/** postgres://user:password@host:5432/database?mode=session&schema=holdfast, also postgresql:// */
export async function open(url: StoreUrl): Promise<Backend> {
  return postgres(await dialer(url), options(url))
}

/** What `holdfast migrate` shows and runs. */
export async function migration(url: StoreUrl): Promise<{ print(): string; run(): Promise<void> }> {
  const { schema = DEFAULT_SCHEMA } = options(url)
  return {
    print: () => schemaSql(schema),
    run: async () => await runMigration(await dialer(url), schema),
  }
}

function options(url: StoreUrl): PostgresOptions {
  checkQuery(url, [...OWN, ...HANDED_ON])
  const mode = url.query.get('mode') ?? 'lease'
  if (mode !== 'lease' && mode !== 'session') throw new ConfigError("The URL's mode must be 'lease' or 'session'.")
  for (const sslmode of url.query.getAll('sslmode')) {
    if (!SSL_MODES.includes(sslmode)) {
      throw new ConfigError(`The URL's sslmode '${sslmode}' is not one. Write one of: ${SSL_MODES.join(', ')}.`)
    }
  }
  const schema = url.query.get('schema')
  const connections = url.query.get('connections')
  return {
    mode,
    ...(schema === null ? {} : { schema }),
    ...(connections === null ? {} : { connections: Number(connections) }),
    listen: yesOrNo(url, 'listen'),
    migrate: yesOrNo(url, 'migrate'),
  }
}

function yesOrNo(url: StoreUrl, key: string): boolean {
  const text = url.query.get(key) ?? 'true'
  if (text !== 'true' && text !== 'false') throw new ConfigError(`The URL's ${key} must be 'true' or 'false'.`)
  return text === 'true'
}

/** Connects to the first of the URL's hosts that takes writes. */
async function dialer(url: StoreUrl): Promise<Dial> {
  const { Client: PgClient } = (await driver()).default
  const targets = hostTexts(url).map((host) => connectionString(url, host))
  return async () => {
    let failure: unknown
    for (const [i, target] of targets.entries()) {
      const client = new PgClient({
        connectionString: target,
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
        keepAlive: true,
      })
      // A connection that breaks before anybody uses it must not end the process; its next use says so.
      client.on('error', () => undefined)
      try {
        await client.connect()
        if (i === targets.length - 1 || !(await isReadOnly(client))) return client
        void client.end().catch(() => destroy(client))
      } catch (error) {
        failure = error
        destroy(client)
      }
    }
    throw failure
  }
}

function hostTexts(url: StoreUrl): string[] {
  if (url.hosts.length === 0) return ['']
  return url.hosts.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}${port ? `:${port}` : ''}`)
}

function connectionString(url: StoreUrl, host: string): string {
  const query = new URLSearchParams(
    HANDED_ON.flatMap((key) => url.query.getAll(key).map((value): [string, string] => [key, value])),
  )
  const user = url.user === undefined ? '' : encodeURIComponent(url.user)
  const secret = url.password === undefined ? '' : `:${encodeURIComponent(url.password)}`
  const path = encodeURIComponent(url.path.replace(/^\//, ''))
  return `postgres://${user}${secret}${user === '' && secret === '' ? '' : '@'}${host}/${path}?${query.toString()}`
}

/** With several hosts, the one to use is the one that takes writes. */
async function isReadOnly(client: Client): Promise<boolean> {
  const { rows } = await watched(client, client.query<{ off: boolean }>('SELECT pg_is_in_recovery() AS off'))
  return rows[0]?.off === true
}

async function driver(): Promise<typeof import('pg')> {
  try {
    return await import('pg')
  } catch (cause) {
    throw new ConfigError('The postgres:// store needs the pg package: run: npm install pg', { cause })
  }
}
