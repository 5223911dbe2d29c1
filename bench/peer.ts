import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** The peers are installed beside the benchmark, not with the package. */
const home = join(process.cwd(), 'bench', 'peers')

export function installPeers(): void {
  if (existsSync(join(home, 'node_modules'))) return
  process.stderr.write('installing the peers to measure beside …\n')
  const run = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--legacy-peer-deps'], {
    cwd: home,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  if (run.status !== 0) throw new Error('npm ci in bench/peers failed')
}

/** Imports a peer by its name. */
export async function importPeer<T>(name: string): Promise<T> {
  const path = createRequire(join(home, 'package.json')).resolve(name)
  return (await import(pathToFileURL(path).href)) as T
}
