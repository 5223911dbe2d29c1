import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { DRAIN_WAITERS, HOT_MS, HOT_WAITERS, PROCESSES } from '../scenarios.js'

/** What a program in another language reached in the same scenarios. */
export interface ForeignResult {
  readonly sequential: number
  readonly inflight: number
  readonly drainMs: number
  readonly hotTotal: number
}

export interface Foreign {
  readonly name: string
  /** The command that takes: HOSTS SCENARIO THREADS [MS]. */
  readonly command: readonly string[]
}

const PAIRS_MS = 2_000

/** Compiles a Java program of this folder; the result runs with the returned command. */
export async function java(file: string, jars: readonly string[]): Promise<Foreign & { remove(): Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-bench-'))
  const classPath = jars.map((jar) => `/usr/share/java/${jar}.jar`).join(':')
  const source = join(process.cwd(), 'bench', 'foreign', `${file}.java`)
  await promisify(execFile)('javac', ['-cp', classPath, '-d', directory, source])
  return {
    name: file,
    command: ['java', '-Xmx512m', '-cp', `${directory}:${classPath}`, file],
    remove: () => rm(directory, { recursive: true }),
  }
}

/** Runs all scenarios. `hold` takes the lock that the drain begins behind, and gives back its release. */
export async function measure(
  foreign: Foreign,
  hosts: string,
  hold: () => Promise<() => Promise<unknown>>,
): Promise<ForeignResult> {
  const sequential = await pairs(foreign, hosts, 1)
  const inflight = await pairs(foreign, hosts, 64)
  const release = await hold()
  const drainers = await startWaiters(foreign, [hosts, 'drain', String(DRAIN_WAITERS)])
  await new Promise((resolve) => setTimeout(resolve, 500))
  const from = performance.now()
  await release()
  await Promise.all(drainers.map((one) => one.counts))
  const drainMs = performance.now() - from
  const hot = await startWaiters(foreign, [hosts, 'hot', String(HOT_WAITERS), String(HOT_MS)])
  const counts = (await Promise.all(hot.map((one) => one.counts))).flat()
  return { sequential, inflight, drainMs, hotTotal: counts.reduce((sum, one) => sum + one, 0) }
}

async function pairs(foreign: Foreign, hosts: string, threads: number): Promise<number> {
  const [file, ...args] = [...foreign.command, hosts, 'pairs', String(threads), String(PAIRS_MS)]
  const { stdout } = await promisify(execFile)(file, args)
  return Number(stdout.trim())
}

async function startWaiters(foreign: Foreign, args: readonly string[]): Promise<{ counts: Promise<number[]> }[]> {
  const workers = Array.from({ length: PROCESSES }, () => startWaiter([...foreign.command, ...args]))
  await Promise.all(workers.map((worker) => worker.said('ready')))
  for (const worker of workers) worker.child.stdin.write('go\n')
  await Promise.all(workers.map((worker) => worker.said('asked')))
  return workers.map((worker) => ({
    counts: worker.said('counts').then((line) => line.split(' ').slice(1).map(Number)),
  }))
}

function startWaiter([file, ...args]: readonly string[]): {
  child: ChildProcessWithoutNullStreams
  said(word: string): Promise<string>
} {
  const child = spawn(file!, args)
  child.stderr.pipe(process.stderr)
  const lines: string[] = []
  const wake: (() => void)[] = []
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line)
    for (const resume of wake.splice(0)) resume()
  })
  const failed = once(child, 'exit').then(() => undefined)
  return {
    child,
    said: async (word) => {
      for (;;) {
        const line = lines.find((one) => one.startsWith(word))
        if (line !== undefined) return line
        const ended = await Promise.race([new Promise<true>((resolve) => wake.push(() => resolve(true))), failed])
        if (ended === undefined && !lines.some((one) => one.startsWith(word))) {
          throw new Error(`${file} ended without saying '${word}'`)
        }
      }
    },
  }
}
