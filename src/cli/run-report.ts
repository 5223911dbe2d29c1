import type { Lease } from '../core/lease.js'
import type { LineInfo } from '../core/view.js'
import { EXIT } from './exit-codes.js'
import { explain, jsonLine, redact, say } from './output.js'
import type { Ended } from './protocol.js'
import { kindOf, type RunOptions } from './run-options.js'
import { exitCodeOfSignal, Interrupted } from './signals.js'
import { shellWord, span, visible } from './text.js'
import { whoHolds } from './tickets.js'
import { GuardianGoneError, type Outcome } from './warden.js'

/**
 * What became of the lock after the command: given back · lapsed: not in time to be given back, but the command was over
 * before · gone: it had been taken away meanwhile · an error: the store does not say.
 */
export type Farewell = 'given back' | 'lapsed' | 'gone' | Error

/** What `holdfast run` tells of itself on stderr, as text or as JSON lines, and the exit status that goes with it. */
export class RunReport {
  readonly #options: RunOptions
  #stoodStillMs = 0

  constructor(options: RunOptions) {
    this.#options = options
  }

  /** Remembers the longest time in which this process did not get to run: it may be why the lock was lost. */
  stoodStill(ms: number): void {
    this.#stoodStillMs = Math.max(this.#stoodStillMs, ms)
  }

  granted(lease: Lease, waitedMs: number): void {
    const { name, owner, fence } = lease
    if (this.#options.json) this.#json({ event: 'granted', name, owner, fence, waitedMs: Math.round(waitedMs) })
  }

  slept(sleptMs: number): void {
    this.#tell('slept', `the machine slept for ${span(sleptMs)}: the command is frozen until the lock is renewed.`, {
      sleptMs: Math.round(sleptMs),
    })
  }

  busy(lines: readonly LineInfo[], waitedMs: number): number {
    const { name, waitMs } = this.#options
    const who = whoHolds(lines, kindOf(this.#options.mode))
    const gaveUp = waitMs === 0 ? '' : ` Gave up after ${span(waitedMs)}.`
    const next = waitMs === 0 ? 'Use --wait 10s to wait for it' : 'Use a longer --wait'
    const text = `'${visible(name)}' is taken${who === undefined ? '' : `, ${who}`}.${gaveUp} ${next}, or look: holdfast show ${shellWord(name)}`
    this.#tell('busy', text, { waitedMs: Math.round(waitedMs), exitCode: EXIT.busy })
    return EXIT.busy
  }

  error(error: unknown): number {
    if (error instanceof Interrupted) {
      if (this.#options.json) this.#json({ event: 'interrupted', name: this.#options.name, exitCode: error.exitCode })
      return error.exitCode
    }
    if (error instanceof GuardianGoneError) {
      this.#tell('error', `${error.message}. Nothing was run. Try again.`, { exitCode: EXIT.internal })
      return EXIT.internal
    }
    const { text, exitCode } = explain(error, this.#options.store)
    this.#tell('error', text, { exitCode })
    return exitCode
  }

  /** How it ended. */
  end(outcome: Outcome, lease: Lease, farewell: Farewell): number {
    if (outcome.type === 'failed') return this.#notStarted(outcome)
    if (outcome.type === 'abandoned') return this.#abandoned(outcome)
    return outcome.stopped === undefined ? this.#ended(outcome, farewell) : this.#stopped(outcome, lease)
  }

  #ended(ended: Ended, farewell: Farewell): number {
    const exitCode = ended.signal === null ? (ended.code ?? EXIT.internal) : exitCodeOfSignal(ended.signal)
    const facts = { exitCode, signal: ended.signal, ours: farewell !== 'gone' }
    if (farewell !== 'given back') this.#tell('ended', this.#farewellText(farewell), facts)
    else if (this.#options.json) this.#json({ event: 'ended', name: this.#options.name, ...facts })
    return exitCode
  }

  #farewellText(farewell: Exclude<Farewell, 'given back'>): string {
    const { ttlMs, graceMs, store } = this.#options
    const name = visible(this.#options.name)
    if (farewell === 'lapsed') return `the command had ended when '${name}' lapsed${this.#stoodStillText()}.`
    if (farewell === 'gone') {
      return `'${name}' was taken away before the command ended by itself: it may have run beside the next holder.`
    }
    const { text } = explain(farewell, store)
    return `the command ended, but the lock of '${name}' could not be given back: it lapses within ${span(ttlMs + graceMs)}. ${text}`
  }

  #stopped(ended: Ended, lease: Lease): number {
    const why = this.#stoodStillText() || `: ${lostText(lease.signal.reason, this.#options.store)}`
    const what =
      ended.stopped === 'gone'
        ? 'The command was killed at once.'
        : `The command was stopped with ${ended.killed ? 'SIGTERM and then SIGKILL' : 'SIGTERM'} before anyone else could get the lock.`
    const left = ended.survivors ? ' Something of its process group was still there after SIGKILL.' : ''
    const text = `lost '${visible(this.#options.name)}' (fence ${lease.fence})${why}. ${what}${left}`
    this.#tell('lost', text, {
      exitCode: EXIT.lost,
      signal: ended.signal,
      killed: ended.killed,
      survivors: ended.survivors,
    })
    return EXIT.lost
  }

  #notStarted(outcome: Extract<Outcome, { type: 'failed' }>): number {
    const { command } = this.#options
    if (outcome.code === 'LATE') {
      this.#tell('lost', `lost '${visible(this.#options.name)}': ${outcome.message}. Try again with a longer --ttl.`, {
        exitCode: EXIT.lost,
      })
      return EXIT.lost
    }
    const missing = outcome.code === 'ENOENT'
    const exitCode = missing ? EXIT.notFound : EXIT.notExecutable
    const hint = missing ? 'Is it installed, and in PATH?' : 'Is it a program, with permission to execute it?'
    const what = missing ? 'not found' : `cannot be executed (${outcome.code})`
    this.#tell('error', `${visible(command)}: ${what}. ${hint}`, { exitCode })
    return exitCode
  }

  #abandoned(outcome: Extract<Outcome, { type: 'abandoned' }>): number {
    const stopped = outcome.command
    const what =
      stopped === undefined
        ? 'The command was not running.'
        : stopped.survivors
          ? 'Something of the command was still there after SIGKILL; the lock is left to lapse.'
          : 'The command was stopped, and the lock given back.'
    this.#tell('error', `the guardian process ended unexpectedly (killed?). ${what}`, { exitCode: EXIT.internal })
    return EXIT.internal
  }

  /** Whether this process stood still is something that only it can know, and mostly the whole story. */
  #stoodStillText(): string {
    if (this.#stoodStillMs < this.#options.ttlMs / 2) return ''
    return `: holdfast itself stood still for ${span(this.#stoodStillMs)} (stopped, or a machine too busy) and could not renew it`
  }

  #tell(event: string, text: string, facts: Record<string, unknown>): void {
    if (this.#options.json) this.#json({ event, name: this.#options.name, ...facts, message: text })
    else say(text)
  }

  #json(value: Record<string, unknown>): void {
    process.stderr.write(jsonLine(value))
  }
}

/** Core's own words on why, without its advice to programs. */
function lostText(reason: unknown, store: string | undefined): string {
  if (!(reason instanceof Error)) return 'it could not be renewed in time'
  return redact(/ is lost: (.+?)\. /.exec(reason.message)?.[1] ?? reason.message, store)
}
