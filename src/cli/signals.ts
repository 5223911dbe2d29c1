import { constants } from 'node:os'
import { SIGNAL_BASE } from './exit-codes.js'
import { say } from './output.js'
import type { Warden } from './warden.js'

/** Those that ask to end; before the command runs, they end the waiting. */
const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const
const OTHERS = ['SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGCONT'] as const

/** Thrown out of the wait for a lock when a signal asked to end. */
export class Interrupted extends Error {
  readonly exitCode: number
  constructor(signal: NodeJS.Signals) {
    super(`interrupted by ${signal}`)
    this.name = 'Interrupted'
    this.exitCode = SIGNAL_BASE + constants.signals[signal]
  }
}

/** The exit status that tells of a signal, as shells do. */
export function exitCodeOfSignal(signal: NodeJS.Signals): number {
  return SIGNAL_BASE + constants.signals[signal]
}

/** Where signals go: to the wait for the lock at first, to the command once it runs. */
export class Signals {
  readonly #abort = new AbortController()
  #warden: Warden | undefined

  constructor() {
    for (const signal of ENDING) {
      process.on(signal, () => {
        if (this.#warden === undefined) this.#abort.abort(new Interrupted(signal))
        else this.#warden.signal(signal)
      })
    }
    for (const signal of OTHERS) process.on(signal, () => this.#warden?.signal(signal))
    process.on('SIGTSTP', () => this.#suspend())
  }

  /** Aborts with `Interrupted` when a signal asks to end before the command runs. */
  get interrupted(): AbortSignal {
    return this.#abort.signal
  }

  /** From now on signals are the command's. */
  passTo(warden: Warden): void {
    this.#abort.signal.throwIfAborted()
    this.#warden = warden
  }

  // The kernel discards SIGTSTP for a group without a terminal, so Ctrl-Z becomes SIGSTOP, for the command and for us.
  // The lock is not renewed meanwhile; when it ends, the guardian stops the command as it would had we been stopped otherwise.
  #suspend(): void {
    const stopSelf = (): void => void process.kill(process.pid, 'SIGSTOP')
    if (this.#warden === undefined) {
      stopSelf()
      return
    }
    say('suspended. The lock is not renewed now: continue before its ttl ends, or the command is stopped.')
    this.#warden.signal('SIGSTOP', stopSelf)
  }
}
