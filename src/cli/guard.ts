import type { ProcessGroup } from './group.js'
import type { Ended, FromGuardian, StopReason } from './protocol.js'

/** The clocks and the timer of a guard. */
export interface GuardClock {
  /** Monotonic milliseconds that all processes of one boot share. */
  now(): number
  /** Milliseconds since the machine was started, sleep included. */
  uptime(): number
  /** Runs `fn` after `ms`; the answer cancels it. */
  after(ms: number, fn: () => void): () => void
}

/** How often a guard looks whether the machine slept, and whether a group that it stops is gone. */
const LOOK_MS = 500
const LOOK_WHILE_STOPPING_MS = 20

/** A difference between two clocks that is not a sleep: the uptime is told in hundredths of a second. */
const NO_SLEEP_MS = 1_000

/** How long after SIGKILL a group may linger (a process in the kernel's hands, a zombie that nobody reaps). */
const LINGER_MS = 2_000

/**
 * Watches over one process group and stops it before the lock under which it runs can pass on:
 * SIGTERM at the deadline − `killAfterMs`, SIGKILL at the deadline, unless a refresh moves the deadline on.
 */
export class Guard {
  readonly #group: ProcessGroup
  readonly #clock: GuardClock
  readonly #report: (message: FromGuardian) => void
  readonly #killAfterMs: number
  #deadlineMs: number
  #awakeOffset: number
  #frozen = false
  #exit: { code: number | null; signal: NodeJS.Signals | null } | undefined
  #stopping: { reason: StopReason; killAtMs: number; killedAtMs?: number } | undefined
  #ended = false
  #cancel: () => void = () => {}

  constructor(
    group: ProcessGroup,
    limits: { readonly deadlineMs: number; readonly killAfterMs: number },
    clock: GuardClock,
    report: (message: FromGuardian) => void,
  ) {
    this.#group = group
    this.#clock = clock
    this.#report = report
    this.#deadlineMs = limits.deadlineMs
    this.#killAfterMs = limits.killAfterMs
    this.#awakeOffset = clock.uptime() - clock.now()
    this.#look()
  }

  get ended(): boolean {
    return this.#ended
  }

  /** The lock was renewed. */
  refresh(deadlineMs: number, confirms: boolean): void {
    // Once SIGTERM was sent there is no way back: what got it may be half gone.
    if (this.#stopping !== undefined) return
    this.#deadlineMs = deadlineMs
    if (this.#frozen && confirms) {
      this.#frozen = false
      this.#group.signal('SIGCONT')
    }
    this.#look()
  }

  /** Passes a signal on, as long as the command has not ended. */
  signal(signal: NodeJS.Signals): void {
    if (this.#exit !== undefined || this.#ended) return
    if (signal === 'SIGCONT' && this.#frozen) return
    this.#group.signal(signal)
  }

  /** The process that leads the group has ended. */
  exited(code: number | null, signal: NodeJS.Signals | null): void {
    this.#exit = { code, signal }
    // What it left behind runs on, as under a shell; unless the group is being stopped, then all of it goes.
    if (this.#stopping === undefined) this.#end(false)
    else this.#look()
  }

  /** Stops the group: politely while the lock is still ours, at once when it is gone. */
  stop(reason: StopReason): void {
    if (this.#ended) return
    const now = this.#clock.now()
    // A frozen group must not take one more step without a lock that is known to be ours.
    const atOnce = reason === 'gone' || this.#frozen
    const killAtMs = atOnce ? now : Math.min(now + this.#killAfterMs, this.#deadlineMs)
    if (this.#stopping === undefined) {
      this.#stopping = { reason, killAtMs }
      if (killAtMs > now) {
        this.#group.signal('SIGTERM')
        // A stopped process takes SIGTERM only when it goes on.
        this.#group.signal('SIGCONT')
      }
    } else {
      this.#stopping.killAtMs = Math.min(this.#stopping.killAtMs, killAtMs)
    }
    this.#look()
  }

  #look(): void {
    this.#cancel()
    if (this.#ended) return
    const now = this.#clock.now()
    if (this.#stopping === undefined) {
      this.#checkSleep(now)
      if (now >= this.#deadlineMs - this.#killAfterMs) {
        this.stop('deadline')
        return
      }
      this.#again(Math.min(this.#deadlineMs - this.#killAfterMs - now, LOOK_MS))
      return
    }
    if (this.#stopping.killedAtMs === undefined && now >= this.#stopping.killAtMs) {
      this.#stopping.killedAtMs = now
      this.#group.signal('SIGKILL')
    }
    if (!this.#group.alive()) this.#end(false)
    else if (now > (this.#stopping.killedAtMs ?? Infinity) + LINGER_MS) this.#end(true)
    else if (this.#stopping.killedAtMs !== undefined) this.#again(LOOK_WHILE_STOPPING_MS)
    else this.#again(Math.min(this.#stopping.killAtMs - now, LOOK_WHILE_STOPPING_MS))
  }

  #again(ms: number): void {
    this.#cancel = this.#clock.after(Math.max(1, Math.ceil(ms)), () => this.#look())
  }

  /**
   * The monotonic clock stands still while the machine sleeps, and the store's may not: the lock may be another's
   * since long. Killing would be hard on a laptop whose own SQLite slept as well, so the group is frozen until asked.
   */
  #checkSleep(now: number): void {
    const offset = this.#clock.uptime() - now
    const sleptMs = offset - this.#awakeOffset
    this.#awakeOffset = offset
    if (sleptMs < NO_SLEEP_MS) return
    this.#frozen = true
    this.#group.signal('SIGSTOP')
    this.#report({ type: 'doubt', sleptMs })
  }

  #end(survivors: boolean): void {
    this.#ended = true
    this.#cancel()
    const { code, signal } = this.#exit ?? { code: null, signal: null }
    const ended: Ended = { type: 'ended', code, signal, killed: this.#stopping?.killedAtMs !== undefined, survivors }
    this.#report(this.#stopping === undefined ? ended : { ...ended, stopped: this.#stopping.reason })
  }
}
