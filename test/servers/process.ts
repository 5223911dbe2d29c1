import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { releasePort } from './ports.js'
import { forgetPath, forgetPid, guardPid } from './watchdog.js'

/** A server under the control of a test. */
export interface Server {
  readonly url: string
  readonly host: string
  readonly port: number
  /** Its process; 0 while it is down. */
  readonly pid: number
  /** Its data, its configuration, and `log`. */
  readonly directory: string
  /** Everything it wrote to its output so far. */
  log(): string
  /** SIGSTOP, for it and the processes it started. */
  pause(): void
  /** SIGCONT. */
  resume(): void
  /** kill -9. Port and data stay, for `start`. */
  kill(): Promise<void>
  /** An orderly end. Port and data stay, for `start`. */
  shutdown(): Promise<void>
  /** Starts it again, on the same port and data. */
  start(): Promise<void>
  /** Ends it for good: no process and no file is left. */
  stop(): Promise<void>
}

/** What a server is made of. */
export interface ServerPlan {
  readonly name: string
  readonly url: string
  readonly port: number
  /** Further ports to give back in the end. */
  readonly otherPorts?: readonly number[]
  /** Its temporary directory: its data, and `log` with its output. */
  readonly directory: string
  readonly file: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly uid?: number
  readonly gid?: number
  /** For an orderly end; SIGTERM when left out. */
  readonly stopSignal?: NodeJS.Signals
  /** Asks the server whether it answers. Called again and again until true. */
  ready(): Promise<boolean>
}

/** Options as most servers take them: { port: '1' } is --port 1. */
export function flags(values: Readonly<Record<string, string>>): string[] {
  return Object.entries(values).flatMap(([key, value]) => [`--${key}`, value])
}

const READY_WITHIN_MS = 60_000
const STOP_WITHIN_MS = 10_000
/** A stop takes effect in a moment; longer than this it never does. */
const LONGEST_STOP_MS = 2_000

/** Starts a server as a plain child process, and waits until it answers. */
export async function startServer(plan: ServerPlan): Promise<Server> {
  const server = new ServerProcess(plan)
  await server.start()
  return server
}

class ServerProcess implements Server {
  readonly #plan: ServerPlan
  readonly host = '127.0.0.1'
  #child: ChildProcess | undefined
  #ended: Promise<void> = Promise.resolve()

  constructor(plan: ServerPlan) {
    this.#plan = plan
  }

  get url(): string {
    return this.#plan.url
  }

  get port(): number {
    return this.#plan.port
  }

  get directory(): string {
    return this.#plan.directory
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  log(): string {
    return readFileSync(join(this.#plan.directory, 'log'), 'utf8')
  }

  async start(): Promise<void> {
    if (this.#child !== undefined) return
    this.#spawn()
    const until = Date.now() + READY_WITHIN_MS
    while (!(await this.#plan.ready())) {
      if (this.#child === undefined || Date.now() > until) {
        const why = this.#child === undefined ? 'ended instead of starting' : 'did not answer in time'
        const log = this.log().slice(-4_000)
        await this.stop()
        throw new Error(`${this.#plan.name} on port ${this.port} ${why}. The end of its output:\n${log}`)
      }
      await sleep(20)
    }
  }

  pause(): void {
    const pids = family(this.pid)
    for (const pid of pids) signal(pid, 'SIGSTOP')
    // A thread may go on for a moment after the signal was sent, and answer one more call.
    const until = performance.now() + LONGEST_STOP_MS
    while (!pids.every(isStopped) && performance.now() < until);
  }

  resume(): void {
    for (const pid of family(this.pid)) signal(pid, 'SIGCONT')
  }

  async kill(): Promise<void> {
    // Stopped first, so that it starts no further process between the look and the kill.
    signal(this.pid, 'SIGSTOP')
    const pids = family(this.pid)
    for (const pid of pids) signal(pid, 'SIGKILL')
    await this.#end()
    // PostgreSQL does not start while a process of its former life still has the shared memory.
    const until = Date.now() + STOP_WITHIN_MS
    while (pids.some((pid) => lives(pid)) && Date.now() < until) await sleep(5)
  }

  async shutdown(): Promise<void> {
    this.resume()
    signal(this.pid, this.#plan.stopSignal ?? 'SIGTERM')
    const late = setTimeout(() => void this.kill(), STOP_WITHIN_MS)
    await this.#end()
    clearTimeout(late)
  }

  async stop(): Promise<void> {
    // Nobody will read its data again, so there is nothing to wait for.
    await this.kill()
    rmSync(this.#plan.directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
    forgetPath(this.#plan.directory)
    for (const port of [this.port, ...(this.#plan.otherPorts ?? [])]) releasePort(port)
  }

  /** Whoever waits for the end stays alive for it; a server by itself keeps nobody alive. */
  async #end(): Promise<void> {
    this.#child?.ref()
    await this.#ended
  }

  #spawn(): void {
    const { file, args, env, uid, gid, directory } = this.#plan
    const log = openSync(join(directory, 'log'), 'a')
    const child = spawn(file, args, {
      cwd: directory,
      env: { PATH: process.env['PATH'], LANG: 'C.UTF-8', TZ: 'UTC', ...env },
      stdio: ['ignore', log, log],
      ...(uid === undefined ? {} : { uid }),
      ...(gid === undefined ? {} : { gid }),
    })
    closeSync(log)
    const { pid } = child
    if (pid !== undefined) guardPid(pid)
    child.unref()
    this.#child = child
    this.#ended = new Promise((resolve) => {
      const end = (): void => {
        if (pid !== undefined) forgetPid(pid)
        this.#child = undefined
        resolve()
      }
      child.once('exit', end)
      child.once('error', end)
    })
  }
}

/** A process and all that descend from it. PostgreSQL's children are sessions of their own, so no group names them all. */
function family(root: number): number[] {
  if (root === 0) return []
  const children = new Map<number, number[]>()
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    const parent = parentOf(Number(entry))
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(entry)])
  }
  const all = [root]
  for (const pid of all) all.push(...(children.get(pid) ?? []))
  return all
}

function parentOf(pid: number): number | undefined {
  const parent = statOf(pid)?.[1]
  return parent === undefined ? undefined : Number(parent)
}

/** One that has ended but was not yet asked for its status (Z) holds nothing any more. */
function lives(pid: number): boolean {
  const state = statOf(pid)?.[0]
  return state !== undefined && state !== 'Z' && state !== 'X'
}

/** State, parent and so on. */
function statOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name in brackets may itself hold spaces and brackets.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined // It ended meanwhile.
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  if (pid === 0) return
  try {
    process.kill(pid, name)
  } catch (error) {
    // Already gone is what a kill wants anyway.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

/** Whether every thread of a process is stopped, or the process is gone. */
function isStopped(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).every((task) => {
      const stat = readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8')
      return /^[TtZX]/.test(stat.slice(stat.lastIndexOf(')') + 2))
    })
  } catch (error) {
    // Gone while we looked: it will not answer either.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT' || (error as NodeJS.ErrnoException).code === 'ESRCH')
      return true
    throw error
  }
}
