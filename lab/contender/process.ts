import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { forgetPid, guardPid } from '../../test/servers/watchdog.js'
import { within } from '../pace.js'
import type { Answer, Command, Event } from './protocol.js'

const MAIN = fileURLToPath(new URL('./main.js', import.meta.url))

/** A contender's process, seen from the stage. */
export class ContenderProcess {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (answer: Answer | undefined) => void>()
  readonly #ended: Promise<void>
  #listeners: ((event: Event) => void)[] = []
  #next = 1
  #errors = ''
  alive = true
  /** False once it was skewed, stopped or wounded: never used again. */
  reusable = true

  constructor() {
    this.#child = fork(MAIN, [], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'], execArgv: [] })
    const { pid } = this.#child
    if (pid !== undefined) guardPid(pid)
    this.#child.stderr?.on('data', (chunk: Buffer) => (this.#errors = (this.#errors + chunk.toString()).slice(-4_000)))
    this.#child.on('message', (message: Answer | Event) => this.#hear(message))
    this.#ended = new Promise((resolve) => {
      this.#child.once('exit', () => {
        if (pid !== undefined) forgetPid(pid)
        this.alive = false
        for (const answer of this.#waiting.values()) answer(undefined)
        this.#waiting.clear()
        resolve()
      })
    })
  }

  /** The end of what it wrote to its error output. */
  get errors(): string {
    return this.#errors
  }

  /** Undefined when it died before it answered. `begun` is called when it has taken the command up. */
  ask(command: Command, begun?: () => void): Promise<Answer | undefined> {
    if (!this.alive) return Promise.resolve(undefined)
    const id = this.#next++
    if (begun !== undefined) this.listen((event) => event.event === 'begun' && event.id === id && begun())
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve)
      // It may die at this very moment; its 'exit' then answers.
      this.#child.send({ id, command }, () => {})
    })
  }

  listen(listener: (event: Event) => void): void {
    this.#listeners.push(listener)
  }

  /** Resolves with where it stopped; undefined when it died. */
  async stops(): Promise<string | undefined> {
    const stopped = new Promise<string>((resolve) => {
      this.listen((event) => event.event === 'stopped' && resolve(event.where))
    })
    return await Promise.race([stopped, this.#ended.then(() => undefined)])
  }

  signal(name: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
    if (this.alive) this.#child.kill(name)
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.#ended
  }

  forgetListeners(): void {
    this.#listeners = []
  }

  #hear(message: Answer | Event): void {
    if ('event' in message) {
      for (const listener of this.#listeners) listener(message)
      return
    }
    this.#waiting.get(message.id)?.(message)
    this.#waiting.delete(message.id)
  }
}

/** Contenders' processes that are kept for the next cell: to start one costs more than most situations do. */
export class Troupe {
  readonly #registerPort: number
  #idle: ContenderProcess[] = []

  constructor(registerPort: number) {
    this.#registerPort = registerPort
  }

  async take(skewMs = 0): Promise<ContenderProcess> {
    const known = skewMs === 0 ? this.#idle.pop() : undefined
    if (known?.alive === true) return known
    const fresh = new ContenderProcess()
    await fresh.ask({ do: 'prepare', registerPort: this.#registerPort, skewMs })
    if (skewMs !== 0) fresh.reusable = false
    return fresh
  }

  /** Takes it back if it closes everything in time, and ends it otherwise. */
  async giveBack(one: ContenderProcess): Promise<void> {
    one.forgetListeners()
    const closed = one.alive && one.reusable && (await within(CLOSES_WITHIN_MS, one.ask({ do: 'close' })))
    if (closed !== false && closed !== undefined && one.alive) this.#idle.push(one)
    else await one.kill()
  }

  async end(): Promise<void> {
    await Promise.all(this.#idle.map((one) => one.kill()))
    this.#idle = []
  }
}

const CLOSES_WITHIN_MS = 1_500
