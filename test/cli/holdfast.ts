import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export const MAIN: string = new URL('../../dist/cli/main.js', import.meta.url).pathname

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** A running `holdfast`. */
export interface Running {
  readonly pid: number
  readonly process: ChildProcess
  readonly ended: Promise<Ended>
  kill(signal: NodeJS.Signals): void
}

/** A store of its own, and the command line over it. */
export class Bench {
  readonly dir: string = mkdtempSync(join(tmpdir(), 'holdfast-cli-'))
  readonly url: string = `sqlite:${join(this.dir, 'locks.db')}`
  readonly #running = new Set<Running>()

  file(name: string): string {
    return join(this.dir, name)
  }

  /** Starts `holdfast` with these arguments. */
  start(args: readonly string[], options: { env?: NodeJS.ProcessEnv; stdin?: string; cwd?: string } = {}): Running {
    const child = spawn(process.execPath, [MAIN, ...args], {
      env: { ...process.env, HOLDFAST_URL: this.url, ...options.env },
      stdio: 'pipe',
      cwd: options.cwd,
    })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    child.stdin.on('error', () => {})
    child.stdin.end(options.stdin ?? '')
    const ended = new Promise<Ended>((resolve, reject) => {
      child.on('error', reject)
      child.on('close', (code, signal) => {
        this.#running.delete(running)
        resolve({ code, signal, stdout, stderr })
      })
    })
    const running: Running = { pid: child.pid!, process: child, ended, kill: (signal) => void child.kill(signal) }
    this.#running.add(running)
    return running
  }

  /** Runs `holdfast` with these arguments to its end. */
  async run(
    args: readonly string[],
    options: { env?: NodeJS.ProcessEnv; stdin?: string; cwd?: string } = {},
  ): Promise<Ended> {
    return await this.start(args, options).ended
  }

  /** What `show NAME --json` says of the lines of that name. */
  async lines(name: string): Promise<Line[]> {
    const { stdout } = await this.run(['show', name, '--json'])
    return (JSON.parse(stdout) as { lines: Line[] }).lines
  }

  /** Waits until somebody holds it, and so many wait. */
  async untilHeld(name: string, waiting = 0): Promise<Line> {
    return await eventually(async () => {
      const line = (await this.lines(name)).find((one) => one.held > 0 && one.waiting === waiting)
      if (line === undefined) throw new Error(`'${name}' is not held with ${waiting} waiting`)
      return line
    })
  }

  async close(): Promise<void> {
    for (const running of this.#running) {
      running.kill('SIGCONT')
      running.kill('SIGTERM')
    }
    await Promise.all([...this.#running].map((running) => running.ended))
    rmSync(this.dir, { recursive: true, force: true })
  }
}

export interface Line {
  readonly kind: string
  readonly name: string
  readonly held: number
  readonly waiting: number
  readonly tickets: readonly { id: string; state: string; fence: string; owner: string; pid: number; note?: string }[]
}

/** Tries until it does not throw; then the last error is the answer. */
export async function eventually<T>(look: () => T | Promise<T>, withinMs = 20_000): Promise<T> {
  const until = performance.now() + withinMs
  for (;;) {
    try {
      return await look()
    } catch (error) {
      if (performance.now() > until) throw error
      await sleep(25)
    }
  }
}

/** Milliseconds on the monotonic clock that all processes share. */
export function bootMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

const BEAT = `
const { appendFileSync } = require('node:fs')
const [file, label, stubborn] = process.argv.slice(1)
const write = (what) => appendFileSync(file, label + ' ' + what + ' ' + Number(process.hrtime.bigint()) / 1e6 + '\\n')
process.on('SIGTERM', () => { write('term'); if (stubborn !== 'stubborn') process.exit(0) })
write('beat')
setInterval(() => write('beat'), 10)
// Should a test fail before it has stopped it.
setTimeout(() => process.exit(1), 60_000)
`

/** A command that writes the time into a file, every 10 ms, for as long as it runs. */
export function beating(file: string, label: string, stubborn = false): string[] {
  return [process.execPath, '-e', BEAT, file, label, stubborn ? 'stubborn' : 'polite']
}

/** A command as text for a shell. */
export function quoted(command: readonly string[]): string {
  return command.map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`).join(' ')
}

export interface Beat {
  readonly label: string
  readonly what: 'beat' | 'term'
  readonly at: number
}

export function beats(file: string): Beat[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => /^\S+ \S+ [\d.]+$/.test(line))
    .map((line) => {
      const [label, what, at] = line.split(' ')
      return { label: label!, what: what as Beat['what'], at: Number(at) }
    })
}

/** Whether any beat of one label lies between the first and the last of the other. */
export function ranBeside(file: string, first: string, second: string): boolean {
  const of = (label: string): number[] =>
    beats(file)
      .filter((beat) => beat.label === label)
      .map((beat) => beat.at)
  return Math.max(...of(first)) >= Math.min(...of(second))
}

/** The processes whose parent is this one. */
export function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((candidate) => {
      try {
        const stat = readFileSync(`/proc/${candidate}/stat`, 'utf8')
        const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        return state !== 'Z' && Number(parent) === pid
      } catch {
        // It ended while we looked.
        return false
      }
    })
}

/** Whether a process runs (a zombie does not). */
export function runs(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2)[0] !== 'Z'
  } catch {
    // There is no such process.
    return false
  }
}
