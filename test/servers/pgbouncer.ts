import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ensure } from './install.js'
import { freePort } from './ports.js'
import { postgresAnswers } from './postgres.js'
import { type Server, startServer } from './process.js'
import { userToDropTo } from './users.js'
import { temporaryDirectory } from './watchdog.js'

export interface PgbouncerOptions {
  /** 'transaction' when left out. */
  readonly poolMode?: 'session' | 'transaction' | 'statement'
  /** Settings as in pgbouncer.ini: { default_pool_size: '5' }. */
  readonly settings?: Readonly<Record<string, string>>
}

/** A PgBouncer before a PostgreSQL server. */
export async function startPgbouncer(postgres: Server, options: PgbouncerOptions = {}): Promise<Server> {
  const file = await ensure('pgbouncer')
  const port = await freePort()
  const directory = temporaryDirectory('pgbouncer')
  const settings = {
    listen_addr: '127.0.0.1',
    listen_port: String(port),
    unix_socket_dir: '',
    auth_type: 'any',
    pool_mode: options.poolMode ?? 'transaction',
    max_client_conn: '500',
    ignore_startup_parameters: 'extra_float_digits',
    ...options.settings,
  }
  const lines = Object.entries(settings).map(([key, value]) => `${key} = ${value}`)
  const target = `* = host=127.0.0.1 port=${postgres.port} user=postgres password=secret`
  writeFileSync(join(directory, 'pgbouncer.ini'), ['[databases]', target, '[pgbouncer]', ...lines, ''].join('\n'))
  return await startServer({
    name: 'PgBouncer',
    url: `postgres://postgres:secret@127.0.0.1:${port}/postgres`,
    port,
    directory,
    file,
    args: [join(directory, 'pgbouncer.ini')],
    ...userToDropTo('postgres'),
    ready: () => postgresAnswers(port),
  })
}
