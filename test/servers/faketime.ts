import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ensure } from './install.js'

const SHARED = '/dev/shm'

/**
 * The program `faketime`. It keeps a semaphore named after its process, which outlives one that is killed; the next
 * process with that number would refuse to start. So those of processes that are no more go first.
 */
export async function faketime(): Promise<string> {
  const program = await ensure('faketime')
  for (const file of existsSync(SHARED) ? readdirSync(SHARED) : []) {
    const pid = /^(?:sem\.)?faketime_(?:sem|shm)_(\d+)$/.exec(file)?.[1]
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) rmSync(join(SHARED, file), { force: true })
  }
  return program
}
