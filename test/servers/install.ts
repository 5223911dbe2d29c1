import { execFile } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The Debian packages of what the tests start, by the program (or file) that must be there. */
const PACKAGES: Record<string, readonly string[]> = {
  'redis-server': ['redis-server'],
  'redis-cli': ['redis-tools'],
  memcached: ['memcached'],
  etcd: ['etcd-server'],
  etcdctl: ['etcd-client'],
  go: ['golang-go'],
  '/usr/share/gocode/src/go.etcd.io/etcd/clientv3/client.go': ['golang-etcd-server-dev'],
  java: ['default-jre-headless'],
  javac: ['default-jdk-headless'],
  '/usr/share/java/zookeeper.jar': ['libzookeeper-java'],
  '/usr/share/java/curator-recipes.jar': ['libcurator-recipes-java'],
  '/usr/lib/python3/dist-packages/kazoo/__init__.py': ['python3-kazoo'],
  postgres: ['postgresql'],
  pgbouncer: ['pgbouncer'],
  mariadbd: ['mariadb-server-core'],
  'mariadb-install-db': ['mariadb-server-core'],
  my_print_defaults: ['mariadb-client-core'],
  faketime: ['faketime'],
  chromium: ['chromium'],
}

/** The variable that names a server to use where one can neither be found nor installed. */
const VARIABLES: Record<string, string> = {
  'redis-server': 'REDIS_URL',
  memcached: 'MEMCACHED_URL',
  etcd: 'ETCD_URL',
  '/usr/share/java/zookeeper.jar': 'ZOOKEEPER_URL',
  postgres: 'POSTGRES_URL',
  mariadbd: 'MYSQL_URL',
}

/** The path of a program that the tests need; installed first where that is possible (root on Debian). */
export async function ensure(...programs: readonly string[]): Promise<string> {
  const missing = programs.filter((program) => find(program) === undefined)
  if (missing.length > 0) await install(missing)
  const [first = ''] = programs
  for (const program of programs) {
    if (find(program) === undefined) throw new Error(whatToInstall(program))
  }
  return find(first) as string
}

/**
 * The URL of a server that runs already, when `program` is neither there nor to be had.
 * Undefined: start one.
 */
export function outsideUrl(program: string): string | undefined {
  const variable = VARIABLES[program]
  if (variable === undefined || find(program) !== undefined || canInstall()) return undefined
  return process.env[variable]
}

function whatToInstall(program: string): string {
  const variable = VARIABLES[program]
  const or = variable === undefined ? '' : `, or set ${variable} to a server that may be used`
  return `The tests need ${program}: install ${(PACKAGES[program] ?? [program]).join(' ')} (Debian's name)${or}.`
}

/** Where a program is: on the PATH, in sbin, or in PostgreSQL's own directories. */
function find(program: string): string | undefined {
  if (program.startsWith('/')) return existsSync(program) ? program : undefined
  const versions = ['18', '17', '16', '15', '14', '13'].map((version) => `/usr/lib/postgresql/${version}/bin`)
  const directories = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin', ...versions]
  return directories.map((directory) => join(directory, program)).find(isExecutable)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Only the benchmarks compile the Go client. */
const NOT_FOR_TESTS: readonly string[] = ['go', '/usr/share/gocode/src/go.etcd.io/etcd/clientv3/client.go']

/**
 * Everything that the tests start, in one go and before any of them runs: done bit by bit it takes longer, and keeps
 * the machine busy under the first tests. What cannot be had here is told by the test that needs it.
 */
export async function installAll(): Promise<void> {
  const missing = Object.keys(PACKAGES).filter((one) => find(one) === undefined && !NOT_FOR_TESTS.includes(one))
  if (missing.length === 0 || !canInstall()) return
  console.log(`Installing what the tests start: ${packagesOf(missing).join(', ')}`)
  await install(missing)
}

function packagesOf(programs: readonly string[]): string[] {
  return [...new Set(programs.flatMap((program) => PACKAGES[program] ?? [program]))]
}

function canInstall(): boolean {
  return process.getuid?.() === 0 && existsSync('/etc/debian_version') && isExecutable('/usr/bin/apt-get')
}

/**
 * Installs Debian packages, one test process at a time, without starting a service.
 * Several test processes may want the same at once: the lock makes them take turns, and the second finds it done.
 */
async function install(programs: readonly string[]): Promise<void> {
  const missing = programs[0] as string
  if (!canInstall()) throw new Error(whatToInstall(missing))
  const packages = packagesOf(programs)
  const script = `
    set -e
    export DEBIAN_FRONTEND=noninteractive
    if ! [ -e /usr/sbin/policy-rc.d ]; then
      printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
      chmod 755 /usr/sbin/policy-rc.d
      trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    get="apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
    $get install --no-install-recommends "$@" || { $get update && $get install --no-install-recommends "$@"; }
  `
  try {
    const lock = join(tmpdir(), 'holdfast-install.lock')
    await run('flock', [lock, 'sh', '-c', script, 'install', ...packages], { maxBuffer: 64 * 1024 * 1024 })
  } catch (error) {
    throw new Error(`${whatToInstall(missing)} (apt-get could not install it here.)`, { cause: error })
  }
}
