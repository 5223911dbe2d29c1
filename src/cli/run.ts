import { isatty } from 'node:tty'
import { connect } from '../connect.js'
import { LockTimeoutError } from '../core/errors.js'
import type { Holdfast } from '../core/holdfast.js'
import type { Lease } from '../core/lease.js'
import type { Lock } from '../core/lock.js'
import { UsageError } from './arguments.js'
import { EXIT } from './exit-codes.js'
import { inBackground } from './group.js'
import { HELP } from './help.js'
import { write } from './output.js'
import { bootMs } from './protocol.js'
import { type RunOptions, readRunOptions } from './run-options.js'
import { RunReport } from './run-report.js'
import { Signals } from './signals.js'
import { showWaiting } from './waiting.js'
import { Warden } from './warden.js'

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
  let locks: Holdfast | undefined
  try {
    locks = await orInterrupted(connect(options.store), signals.interrupted)
    const startedAt = bootMs()
    const lease = await take(locks, options, signals.interrupted, warden)
    if (lease === undefined) return report.busy(await locks.view(options.name), bootMs() - startedAt)
    report.granted(lease, bootMs() - startedAt)
    return await new Watch(lease, warden, options, report).run(signals)
  } catch (error) {
    return report.error(error)
  } finally {
    warden.dismiss()
    await locks?.close()
  }
}

/** The lease, or undefined when it was not to be had in time. */
async function take(
  locks: Holdfast,
  options: RunOptions,
  signal: AbortSignal,
  warden: Warden,
): Promise<Lease | undefined> {
  await warden.ready
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

/** Gives up waiting for a promise when a signal asks to end; what it brings later is let go. */
async function orInterrupted(promise: Promise<Holdfast>, signal: AbortSignal): Promise<Holdfast> {
  let stop: () => void = () => {}
  const interrupted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(signal.reason as Error)
    signal.addEventListener('abort', stop)
  })
  try {
    return await Promise.race([promise, interrupted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

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
      this.#warden.start({ type: 'start', command, args, env, deadlineMs: this.#deadline(), killAfterMs })
      this.#keepInformed()
      const outcome = await this.#warden.over
      const stillOurs = lease.state === 'held' || lease.state === 'uncertain'
      const survivors =
        outcome.type === 'ended'
          ? outcome.survivors
          : outcome.type === 'abandoned' && outcome.command?.survivors === true
      // What SIGKILL did not end may still write: then the lock is not given back, it has to lapse.
      const released = survivors ? true : await lease.release()
      return this.#report.end(outcome, lease, stillOurs && released)
    } finally {
      clearInterval(this.#timer)
    }
  }

  #keepInformed(): void {
    this.#refreshedAt = bootMs()
    this.#timer = setInterval(() => this.#refresh(), Math.min(1_000, this.#options.ttlMs / 6))
    // In case that both this process and the guardian are killed: the ticket stands for as long as the command runs.
    this.#warden.onStarted = (pid) => {
      this.#lease.alsoRunBy([pid, ...(this.#warden.pid === undefined ? [] : [this.#warden.pid])]).catch(keeperRetries)
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

  #refresh(): void {
    const now = bootMs()
    this.#report.stoodStill(now - this.#refreshedAt)
    this.#refreshedAt = now
    // After a sleep the lease is in doubt until it was renewed; `held` says that it was.
    const confirms = this.#doubt && this.#lease.state === 'held'
    if (confirms) this.#doubt = false
    if (this.#lease.remainingMs > 0) this.#warden.refresh(this.#deadline(), confirms)
  }

  /** The lease's deadline on the clock that the guardian shares. The clock is read first, so the sum is never too late. */
  #deadline(): number {
    const now = bootMs()
    return now + this.#lease.remainingMs
  }
}
