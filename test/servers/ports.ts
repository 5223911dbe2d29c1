import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { forgetPath, guardPath } from './watchdog.js'

// Below the range that Linux takes for outgoing connections (32768 and up): nobody slips in while a server is down.
const FIRST = 20_000
const LAST = 32_000
const DIRECTORY = join(tmpdir(), 'holdfast-ports')

/** Ports that no one listens on, and that no other test process takes until `releasePort`. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = []
  while (ports.length < count) ports.push(await freePort())
  return ports
}

/** One such port. */
export async function freePort(): Promise<number> {
  mkdirSync(DIRECTORY, { recursive: true, mode: 0o1777 })
  for (let attempt = 0; attempt < 1_000; attempt++) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST))
    if (!reserve(port)) continue
    if (await isFree(port)) return port
    releasePort(port)
  }
  throw new Error(`No free port was found between ${FIRST} and ${LAST}.`)
}

/** Others may take it now. */
export function releasePort(port: number): void {
  rmSync(join(DIRECTORY, String(port)), { force: true })
  forgetPath(join(DIRECTORY, String(port)))
}

/** A file that only one process can create stands for the port, with the number of that process in it. */
function reserve(port: number): boolean {
  const path = join(DIRECTORY, String(port))
  try {
    writeFileSync(path, String(process.pid), { flag: 'wx' })
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
    if (isStale(path)) rmSync(path, { force: true })
    return false
  }
  guardPath(path)
  return true
}

function isStale(path: string): boolean {
  try {
    const pid = Number(readFileSync(path, 'utf8'))
    // Just created, its number not yet written.
    if (pid === 0) return Date.now() - statSync(path).mtimeMs > 60_000
    process.kill(pid, 0)
    return false
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH'
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
