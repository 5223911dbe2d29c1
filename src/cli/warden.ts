import { type ChildProcess, spawn } from 'node:child_process'
import { uptime } from 'node:os'
import { fileURLToPath } from 'node:url'
import { processGroup, startTime } from './group.js'
import { Guard, type GuardClock } from './guard.js'
import { bootMs, type Ended, type FromGuardian, type ToGuardian } from './protocol.js'

/** How the command was started and ended, or why not. */
export type Outcome =
  | Ended
  | Extract<FromGuardian, { type: 'failed' }>
  /** The guardian died. What it guarded was stopped by the CLI itself, if it had been started. */
  | { readonly type: 'abandoned'; readonly command?: Ended }

/** There is no guardian (any more), so nothing was started. */
export class GuardianGoneError extends Error {
  constructor() {
    super('the guardian process could not be started, or was killed')
    this.name = 'GuardianGoneError'
  }
}

/** How long a guardian may take to do what it was told, before the CLI does it. */
const PATIENCE_MS = 500
const LAST_PATIENCE_MS = 3_000

/** The CLI's end of the pipe to its guardian. */
export class Warden {
  /** How the command ended. Never rejects. */
  readonly over: Promise<Outcome>
  /** Settles when the guardian stands ready, or has died. */
  readonly ready: Promise<void>
  /** Called when the machine slept and the command is frozen until a refresh that confirms. */
  onDoubt: (sleptMs: number) => void = () => {}
  /** Called when the command has been started. */
  onStarted: (pid: number) => void = () => {}

  readonly #process: ChildProcess
  readonly #gone = new AbortController()
  #order: Extract<ToGuardian, { type: 'start' }> | undefined
  #deadlineMs = 0
  #command: { pid: number; startTime: string | undefined } | undefined
  #final: Outcome | undefined

  constructor(stdin: 'inherit' | 'ignore') {
    // A session of its own: no terminal, no `kill` of the CLI's process group, no SIGHUP takes it along.
    const guardian = spawn(process.execPath, [fileURLToPath(new URL('./guardian.js', import.meta.url))], {
      detached: true,
      stdio: [stdin, 'inherit', 'inherit', 'ipc'],
    })
    this.#process = guardian
    this.ready = new Promise((resolve) => {
      guardian.once('message', () => resolve())
      guardian.once('close', () => resolve())
      guardian.once('error', () => resolve())
    })
    this.over = new Promise((resolve) => {
      guardian.on('message', (message: FromGuardian) => this.#heard(message))
      // Only after 'close' all messages have been read.
      guardian.once('close', () => void this.#settle().then(resolve))
      guardian.once('error', () => {
        if (guardian.pid === undefined) resolve({ type: 'abandoned' })
      })
    })
    void this.over.then(() => this.#gone.abort(new GuardianGoneError()))
  }

  /** Aborts when the guardian is gone: without one, there is no use in waiting for the lock. */
  get gone(): AbortSignal {
    return this.#gone.signal
  }

  get pid(): number | undefined {
    return this.#process.pid
  }

  start(order: Extract<ToGuardian, { type: 'start' }>): void {
    this.#order = order
    this.#deadlineMs = order.deadlineMs
    this.#send(order)
  }

  refresh(deadlineMs: number, confirms: boolean): void {
    this.#deadlineMs = deadlineMs
    this.#send({ type: 'refresh', deadlineMs, confirms })
  }

  /** Passes a signal on; `sent` is called when it is on its way. */
  signal(signal: NodeJS.Signals, sent: () => void = () => {}): void {
    this.#send({ type: 'signal', signal }, sent)
  }

  /** Kills the command's process group at once: through the guardian, else (it may be stopped) ourselves. */
  kill(): void {
    this.#send({ type: 'kill' })
    const group = this.#command === undefined ? undefined : processGroup(this.#command.pid)
    const timers = [
      setTimeout(() => group?.signal('SIGKILL'), PATIENCE_MS),
      setTimeout(() => this.#process.kill('SIGKILL'), LAST_PATIENCE_MS),
    ]
    this.#process.once('exit', () => timers.forEach(clearTimeout))
  }

  /** Lets a guardian go that has started nothing. */
  dismiss(): void {
    if (this.#process.connected) this.#process.disconnect()
  }

  #send(message: ToGuardian, sent: () => void = () => {}): void {
    // A broken pipe is followed by 'close', where what has to be done is done.
    if (this.#process.connected) this.#process.send(message, sent)
    else sent()
  }

  #heard(message: FromGuardian): void {
    switch (message.type) {
      case 'ready':
        break
      case 'started':
        this.#command = { pid: message.pid, startTime: startTime(message.pid) }
        this.onStarted(message.pid)
        break
      case 'doubt':
        this.onDoubt(message.sleptMs)
        break
      case 'failed':
      case 'ended':
        this.#final = message
        break
    }
  }

  async #settle(): Promise<Outcome> {
    if (this.#final !== undefined) return this.#final
    const command = this.#command
    if (command === undefined || this.#order === undefined) return { type: 'abandoned' }
    // Nobody watches it now, and nobody can tell how it ends. The pid is not ours to wait for, so make sure whose it is.
    const now = startTime(command.pid)
    if (now !== undefined && now !== command.startTime) return { type: 'abandoned' }
    const limits = { deadlineMs: this.#deadlineMs, killAfterMs: this.#order.killAfterMs }
    const ended = await new Promise<Ended>((resolve) => {
      const guard = new Guard(processGroup(command.pid), limits, clock, (message) => {
        if (message.type === 'ended') resolve(message)
      })
      guard.stop('orphaned')
    })
    return { type: 'abandoned', command: ended }
  }
}

const clock: GuardClock = {
  now: bootMs,
  uptime: () => uptime() * 1_000,
  after(ms, fn) {
    const timer = setTimeout(fn, ms)
    return () => clearTimeout(timer)
  },
}
