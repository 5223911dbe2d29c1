import { isatty } from 'node:tty'
import { connect } from '../connect.js'
import { ConfigError, LockTimeoutError } from '../core/errors.js'
import type { Holdfast } from '../core/holdfast.js'
import type { Lease } from '../core/lease.js'
import type { Lock } from '../core/lock.js'
import type { LineInfo } from '../core/view.js'
import { UsageError } from './arguments.js'
import { EXIT } from './exit-codes.js'
import { inBackground } from './group.js'
import { HELP } from './help.js'
import { write } from './output.js'
import { bootMs } from './protocol.js'
import { type RunOptions, readRunOptions } from './run-options.js'
import { type Farewell, RunReport } from './run-report.js'
import { Signals } from './signals.js'
import { showWaiting } from './waiting.js'
import { type Outcome, Warden } from './warden.js'

/** `holdfast run`: runs a command under a lock, and ends as the command does. */
export async function run(args: readonly string[]): Promise<number> {
  const options = readRunOptions(args)
  if (options === undefined) {
    await write(HELP['run']!)
    return EXIT.ok
  }
  if (process.platform === 'win32') {
    throw new UsageError('run needs process groups, which Windows has not. Run it in WSL, or use the library.', 'run')
  }
  const report = new RunReport(options)
  const signals = new Signals()
  // Before the lock is asked for: so its start takes nothing from the hold, and a ticket can name it.
  const warden = new Warden(isatty(0) && inBackground() ? 'ignore' : 'inherit')
  const giveUp = AbortSignal.any([signals.interrupted, warden.gone])
  let locks: Holdfast | undefined
  try {
    locks = await unlessAborted(connect(options.store), giveUp)
    if (locks.guarantees.scope === 'process') {
      throw new ConfigError(
        `The ${locks.store} store is gone with this process, so it keeps no other command out. Choose another.`,
      )
    }
    await warden.ready
    const startedAt = bootMs()
    const lease = await take(locks, options, giveUp, warden)
    if (lease === undefined) return report.busy(await whoIsThere(locks, options.name), bootMs() - startedAt)
    report.granted(lease, bootMs() - startedAt)
    return await new Watch(lease, warden, options, report).run(signals)
  } catch (error) {
    return report.error(error)
  } finally {
    warden.dismiss()
    // What matters has been said by now; a store that cannot even be closed must not change how the command ended.
    await locks?.close().catch(() => {})
  }
}

/** The lease, or undefined when it was not to be had in time. */
async function take(
  locks: Holdfast,
  options: RunOptions,
  signal: AbortSignal,
  warden: Warden,
): Promise<Lease | undefined> {
  const lock = lockOf(locks, options)
  const hold = {
    ttl: options.ttlMs,
    grace: options.graceMs,
    // Where the store sees that this process is gone, the command may still run: the guardian outlives it.
    ...(warden.pid === undefined ? undefined : { also: [warden.pid] }),
    ...(options.mode.kind === 'permits' ? { permits: options.mode.permits } : undefined),
    ...(options.owner === undefined ? undefined : { owner: options.owner }),
    ...(options.note === undefined ? undefined : { note: options.note }),
  }
  if (options.waitMs === 0) return await lock.tryAcquire(hold)
  const hide = showWaiting(locks, options)
  try {
    return await lock.acquire({
      ...hold,
      signal,
      ...(options.waitMs === undefined ? undefined : { wait: options.waitMs }),
    })
  } catch (error) {
    if (error instanceof LockTimeoutError) return undefined
    throw error
  } finally {
    hide()
  }
}

function lockOf(locks: Holdfast, { name, mode }: RunOptions): Lock {
  if (mode.kind === 'mutex') return locks.lock(name)
  if (mode.kind === 'permits') return locks.semaphore(name, mode.of)
  return locks.readWriteLock(name)[mode.kind]
}

/** For the message that it is taken: when that cannot be told, the message says less. */
async function whoIsThere(locks: Holdfast, name: string): Promise<LineInfo[]> {
  return await locks.view(name).catch(() => [])
}

/** What the promise brings, unless the signal aborts first. */
async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  let stop: () => void = () => {}
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(signal.reason as Error)
    signal.addEventListener('abort', stop)
  })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** Two readings of one deadline differ by the time between reading two clocks. */
const SAME_DEADLINE_MS = 5

/** A renewal that failed is tried again by the keeper until the deadline, and the lease says how it went. */
function keeperRetries(): void {}

/** One command under one lease: starts it, tells its guardian of every renewal, and brings both to an end. */
class Watch {
  readonly #lease: Lease
  readonly #warden: Warden
  readonly #options: RunOptions
  readonly #report: RunReport
  #timer: NodeJS.Timeout | undefined
  #refreshedAt = 0
  #doubt = false
  #toldMs = 0
  /** The processes of the command that the ticket does not name yet. */
  #unnamed: readonly number[] | undefined

  constructor(lease: Lease, warden: Warden, options: RunOptions, report: RunReport) {
    this.#lease = lease
    this.#warden = warden
    this.#options = options
    this.#report = report
  }

  async run(signals: Signals): Promise<number> {
    const { command, args, ttlMs, killAfterMs } = this.#options
    const lease = this.#lease
    try {
      // After a wait, what is left of the short lease of a waiting ticket: renew before there is anything to stop.
      if (lease.remainingMs < ttlMs / 2 + killAfterMs / 2) await lease.renew()
      signals.passTo(this.#warden)
      const env = { HOLDFAST_NAME: lease.name, HOLDFAST_FENCE: lease.fence.toString(), HOLDFAST_OWNER: lease.owner }
      this.#toldMs = this.#deadline()
      this.#warden.start({ type: 'start', command, args, env, deadlineMs: this.#toldMs, killAfterMs })
      this.#keepInformed()
      const outcome = await this.#warden.over
      return this.#report.end(outcome, lease, await this.#giveBack(survivorsOf(outcome)))
    } finally {
      clearInterval(this.#timer)
    }
  }

  /** Gives the lock back, and says what became of it. */
  async #giveBack(survivors: boolean): Promise<Farewell> {
    // The guardian saw to it that the command was over by the deadline; after it, there is nothing left to give back.
    if (this.#lease.state === 'lost') return bootMs() >= this.#toldMs ? 'lapsed' : 'gone'
    // What SIGKILL did not end may still write: then the lock is not given back, it has to lapse.
    if (survivors) return 'lapsed'
    try {
      return (await this.#lease.release()) ? 'given back' : 'gone'
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error))
    }
  }

  #keepInformed(): void {
    this.#refreshedAt = bootMs()
    // Often enough that a renewal is known well before a SIGTERM that counts from the one before it.
    this.#timer = setInterval(() => this.#refresh(), Math.min(250, this.#options.ttlMs / 20))
    // In case that both this process and the guardian are killed: the ticket stands for as long as the command runs.
    this.#warden.onStarted = (pid) => {
      this.#unnamed = [pid, ...(this.#warden.pid === undefined ? [] : [this.#warden.pid])]
      this.#nameProcesses()
    }
    this.#warden.onDoubt = (sleptMs) => {
      this.#report.slept(sleptMs)
      this.#doubt = true
      this.#lease
        .renew()
        .catch(keeperRetries)
        .finally(() => this.#refresh())
    }
    const lost = (): void => {
      this.#report.stoodStill(bootMs() - this.#refreshedAt)
      this.#warden.kill()
    }
    if (this.#lease.signal.aborted) lost()
    else this.#lease.signal.addEventListener('abort', lost, { once: true })
  }

  // The keeper's own renewals do not carry them: asked again with every look until the store has them.
  #nameProcesses(): void {
    const processes = this.#unnamed
    if (processes === undefined) return
    this.#unnamed = undefined
    this.#lease.alsoRunBy(processes).catch(() => {
      this.#unnamed = processes
    })
  }

  #refresh(): void {
    this.#nameProcesses()
    const now = bootMs()
    this.#report.stoodStill(now - this.#refreshedAt)
    this.#refreshedAt = now
    // After a sleep the lease is in doubt until it was renewed; `held` says that it was.
    const confirms = this.#doubt && this.#lease.state === 'held'
    if (confirms) this.#doubt = false
    const deadlineMs = this.#deadline()
    const moved = deadlineMs > this.#toldMs + SAME_DEADLINE_MS
    if (this.#lease.remainingMs <= 0 || !(moved || confirms)) return
    this.#toldMs = deadlineMs
    this.#warden.refresh(deadlineMs, confirms)
  }

  /** The lease's deadline on the clock that the guardian shares. The clock is read first, so the sum is never too late. */
  #deadline(): number {
    const now = bootMs()
    return now + this.#lease.remainingMs
  }
}

function survivorsOf(outcome: Outcome): boolean {
  const ended = outcome.type === 'ended' ? outcome : outcome.type === 'abandoned' ? outcome.command : undefined
  return ended?.survivors ?? false
}
