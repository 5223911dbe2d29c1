import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ensure, outsideUrl } from './install.js'
import { outsideServer } from './outside.js'
import { freePort } from './ports.js'
import { ask } from './probe.js'
import { type Server, startServer } from './process.js'
import { temporaryDirectory } from './watchdog.js'

const run = promisify(execFile)

export interface MariadbOptions {
  /** Further arguments of mariadbd: ['--innodb-lock-wait-timeout=1']. */
  readonly args?: readonly string[]
  /** Follow this server (which must have been started with `binlog: true`), and refuse writes. */
  readonly replicaOf?: Server
  /** Keep a binary log, for replicas. */
  readonly binlog?: boolean
}

/** One MariaDB server; user `root`, password `secret`, database `holdfast`. */
export async function startMariadb(options: MariadbOptions = {}): Promise<Server> {
  const outside = outsideUrl('mariadbd')
  if (outside !== undefined) return outsideServer(outside, 3306)
  const file = await ensure('mariadbd', 'my_print_defaults')
  const port = await freePort()
  const directory = temporaryDirectory('mariadb')
  const common = [
    '--no-defaults',
    `--datadir=${join(directory, 'data')}`,
    `--tmpdir=${directory}`,
    ...(process.getuid?.() === 0 ? ['--user=root'] : []),
    // Small files: they are written anew for every server that a test starts.
    '--innodb-log-file-size=8M',
    '--innodb-buffer-pool-size=32M',
    '--innodb-data-file-path=ibdata1:4M:autoextend',
    '--aria-log-file-size=8M',
  ]
  const installer = await ensure('mariadb-install-db')
  await run(installer, [...common, '--auth-root-authentication-method=normal', '--skip-test-db'], { cwd: directory })
  const init = join(directory, 'init.sql')
  writeFileSync(init, initSql(options.replicaOf))
  return await startServer({
    name: 'MariaDB',
    url: `mysql://root:secret@127.0.0.1:${port}/holdfast`,
    port,
    directory,
    file,
    args: [
      ...common,
      '--bind-address=127.0.0.1',
      `--port=${port}`,
      `--socket=${join(directory, 'socket')}`,
      `--init-file=${init}`,
      `--pid-file=${join(directory, 'pid')}`,
      '--innodb-flush-log-at-trx-commit=0',
      '--max-connections=300',
      `--server-id=${port}`,
      '--skip-name-resolve',
      ...(options.binlog === true ? [`--log-bin=${join(directory, 'binlog')}`] : []),
      ...(options.replicaOf === undefined ? [] : ['--read-only']),
      ...(options.args ?? []),
    ],
    // The server speaks first: the packet's header, then 10, the version of its protocol.
    ready: async () => (await ask(port, ''))?.[4] === 10,
  })
}

/** Run at every start, before the port opens, so it may be run twice. */
function initSql(primary: Server | undefined): string {
  const user = ['SET sql_log_bin = 0;', 'CREATE DATABASE IF NOT EXISTS holdfast;']
  for (const host of ['127.0.0.1', 'localhost']) {
    user.push(`CREATE USER IF NOT EXISTS root@'${host}' IDENTIFIED BY 'secret';`)
    user.push(`SET PASSWORD FOR root@'${host}' = PASSWORD('secret');`)
    user.push(`GRANT ALL ON *.* TO root@'${host}' WITH GRANT OPTION;`)
  }
  if (primary === undefined) return `${user.join('\n')}\n`
  const { port } = primary
  const change = `CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=${port}, MASTER_USER='root', MASTER_PASSWORD='secret', MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos;`
  return `${[...user, 'STOP SLAVE;', change, 'START SLAVE;'].join('\n')}\n`
}
