import { execFile } from 'node:child_process'
import { appendFileSync, chownSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { ensure, outsideUrl } from './install.js'
import { outsideServer } from './outside.js'
import { freePort } from './ports.js'
import { ask } from './probe.js'
import { flags, type Server, startServer } from './process.js'
import { userToDropTo } from './users.js'
import { temporaryDirectory } from './watchdog.js'

const run = promisify(execFile)
const PASSWORD = 'secret'

export interface PostgresOptions {
  /** Survive a loss of power. Off unless asked for: it is slow, and no test cuts the power. */
  readonly fsync?: boolean
  /** Settings as in postgresql.conf: { max_connections: '20' }. */
  readonly settings?: Readonly<Record<string, string>>
}

/** One PostgreSQL server; user `postgres`, password `secret`, database `postgres`. */
export async function startPostgres(options: PostgresOptions = {}): Promise<Server> {
  const outside = outsideUrl('postgres')
  if (outside !== undefined) return outsideServer(outside, 5432)
  const file = await ensure('postgres')
  const directory = ownDirectory()
  const data = join(directory, 'data')
  const password = join(directory, 'password')
  writeFileSync(password, PASSWORD, { mode: 0o644 })
  await asPostgres(beside(file, 'initdb'), [
    ...flags({ pgdata: data, username: 'postgres', pwfile: password, auth: 'scram-sha-256' }),
    ...flags({ encoding: 'UTF8', locale: 'C.UTF-8' }),
    '--no-sync',
  ])
  appendFileSync(join(data, 'postgresql.conf'), settings(options))
  appendFileSync(join(data, 'pg_hba.conf'), 'host replication all 127.0.0.1/32 scram-sha-256\n')
  return await startIn(file, directory, await freePort())
}

/** A read-only copy that follows `primary`. */
export async function startPostgresReplica(primary: Server): Promise<Server> {
  const file = await ensure('postgres')
  const directory = ownDirectory()
  await asPostgres(beside(file, 'pg_basebackup'), [
    ...flags({ pgdata: join(directory, 'data'), host: '127.0.0.1', port: String(primary.port), username: 'postgres' }),
    ...flags({ checkpoint: 'fast' }),
    '--write-recovery-conf',
    '--no-sync',
  ])
  return await startIn(file, directory, await freePort())
}

function settings(options: PostgresOptions): string {
  const off = options.fsync === true ? {} : { fsync: 'off', full_page_writes: 'off' }
  const all = {
    unix_socket_directories: '',
    listen_addresses: '127.0.0.1',
    max_connections: '200',
    shared_buffers: '32MB',
    timezone: 'UTC',
    ...off,
    ...options.settings,
  }
  return Object.entries(all)
    .map(([key, value]) => `${key} = '${value}'\n`)
    .join('')
}

/** A directory that the user `postgres` owns: PostgreSQL refuses to run as root. */
function ownDirectory(): string {
  const directory = temporaryDirectory('postgres')
  const user = userToDropTo('postgres')
  if (user !== undefined) chownSync(directory, user.uid, user.gid)
  return directory
}

/** PostgreSQL's other programs lie beside the real one, not beside a link to it. */
function beside(file: string, name: string): string {
  return join(dirname(realpathSync(file)), name)
}

async function asPostgres(file: string, args: readonly string[]): Promise<void> {
  const env = { PATH: process.env['PATH'], LANG: 'C.UTF-8', PGPASSWORD: PASSWORD }
  await run(file, args, { cwd: '/', env, ...userToDropTo('postgres') })
}

async function startIn(file: string, directory: string, port: number): Promise<Server> {
  return await startServer({
    name: 'PostgreSQL',
    url: `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`,
    port,
    directory,
    file,
    args: ['-D', join(directory, 'data'), '-p', String(port)],
    ...userToDropTo('postgres'),
    // The fast way: breaks connections instead of waiting for them.
    stopSignal: 'SIGINT',
    ready: () => postgresAnswers(port),
  })
}

/** Sends a start-up packet: while the server starts it answers with an error, afterwards by asking who we are. */
export async function postgresAnswers(port: number): Promise<boolean> {
  const body = Buffer.from('user\0postgres\0database\0postgres\0\0')
  const head = Buffer.alloc(8)
  head.writeInt32BE(8 + body.length, 0)
  head.writeInt32BE(196_608, 4)
  return (await ask(port, Buffer.concat([head, body])))?.[0] === 'R'.charCodeAt(0)
}
