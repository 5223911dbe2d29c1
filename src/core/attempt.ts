import type { Desk, Pending } from './desk.js'
import { BackendError, ClosedError, LockTimeoutError } from './errors.js'
import { publish } from './events.js'
import { Hold } from './hold.js'
import type { Place, Waiter, Wish } from './place.js'
import { patienceMs } from './renewals.js'

/** A try that never waits still asks again when the connection broke under it, but not for long. */
const TRIES_WITHOUT_WAITING = 3

/** How an attempt ends: with a hold, or with nothing because the answer was no. */
type Outcome = Hold | undefined

/** What an attempt needs of its client. */
interface Taker {
  readonly desk: Desk
  newPlace(wish: Wish): Place
}

/**
 * One acquire from the first join to yes, no or an error. Every path ends in exactly one of the
 * three, and whatever ends it without a hold leaves the line.
 */
export class Attempt implements Waiter, Pending {
  readonly #desk: Desk
  readonly #taker: Taker
  readonly #wish: Wish
  readonly #wait: boolean
  readonly #startedAt: number
  #place: Place
  #failures = 0
  #restarts = 0
  /** What the last join failed with: a timeout before it is answered means unknown, not no. */
  #lastError: unknown
  #done = false
  listed = false
  previous: Pending | undefined = undefined
  next: Pending | undefined = undefined
  readonly #resolve: (outcome: Outcome) => void
  readonly #reject: (error: unknown) => void
  #cleanups: (() => void)[] | undefined
  #cancelRetry: (() => void) | undefined

  private constructor(
    taker: Taker,
    wish: Wish,
    wait: boolean,
    resolve: (outcome: Outcome) => void,
    reject: (error: unknown) => void,
  ) {
    this.#taker = taker
    this.#desk = taker.desk
    this.#wish = wish
    this.#wait = wait
    this.#resolve = resolve
    this.#reject = reject
    this.#place = taker.newPlace(wish)
    this.#startedAt = this.#place.lastAnswerAt
  }

  /** Stands in line until granted, refused, timed out, aborted, closed or failed. */
  static run(taker: Taker, wish: Wish, wait: boolean): Promise<Outcome> {
    return new Promise((resolve, reject) => new Attempt(taker, wish, wait, resolve, reject).#start())
  }

  granted(place: Place): void {
    if (this.#done) return
    place.waiter = undefined
    publish('acquire', () => ({ ...this.#desk.describe(place), ms: this.#desk.clock.now() - this.#startedAt }))
    this.#finish()
    this.#resolve(new Hold(this.#desk, place))
  }

  refused(): void {
    if (this.#done) return
    this.#finish()
    this.#resolve(undefined)
  }

  // Lapsed while this process was stalled, evicted, or answered too late: the place in line is lost, the wish is not.
  gone(place: Place): void {
    if (this.#done) return
    this.#lastError = undefined
    this.#restarts += 1
    if (this.#wait) {
      this.#desk.leaveInBackground(place)
      return this.#standAnew()
    }
    if (this.#restarts >= TRIES_WITHOUT_WAITING) {
      this.#desk.leaveInBackground(place)
      return this.#tooLate()
    }
    // A ticket that came too late may stand: who does not wait would be refused by it, though nobody else is there.
    this.#desk.leave(place, 0, this.#startedAt + this.#desk.callTimeoutMs, true).then(
      () => this.#standAnew(),
      (error: unknown) => this.#tooLate(error),
    )
  }

  failed(place: Place, error: unknown): void {
    if (this.#done) return
    this.#lastError = error
    this.#failures += 1
    const now = this.#desk.clock.now()
    const patient = this.#wait
      ? now - place.lastAnswerAt <= patienceMs(place)
      : this.#failures < TRIES_WITHOUT_WAITING && now - this.#startedAt < this.#desk.callTimeoutMs
    const retryable = error instanceof BackendError && error.retryable
    if (!retryable || !patient) return this.#giveUp(error)
    // The same id again: if the store did grant it, the answer is that grant.
    if (place.state === 'joining') this.#again(this.#failures, () => this.#join())
  }

  /** The client is being closed: nobody is left waiting. */
  end(): void {
    this.#giveUp(new ClosedError(`The client was closed while it waited for '${this.#wish.line.name}'.`))
  }

  #start(): void {
    const { signal, waitMs } = this.#wish.options
    this.#desk.alive.begin()
    // A signal that has aborted already never tells again: between two lines of a group, nobody else looks.
    if (signal?.aborted) {
      this.#place.state = 'left'
      return this.#giveUp(signal.reason)
    }
    if (signal !== undefined) this.#later(this.#desk.aborts.on(signal, () => this.#giveUp(signal.reason)))
    if (this.#wait && waitMs !== Number.POSITIVE_INFINITY) {
      this.#later(this.#desk.at(this.#startedAt + waitMs, () => this.#timeOut(waitMs)))
    }
    this.#desk.pending.add(this)
    this.#join()
  }

  #join(): void {
    this.#place.waiter = this
    this.#desk.keeper.join(this.#place, this.#wait)
  }

  #standAnew(): void {
    if (this.#done) return
    this.#again(this.#restarts, () => {
      this.#place = this.#taker.newPlace(this.#wish)
      this.#join()
    })
  }

  /** Neither yes nor no: what was granted came after its own lease had ended. */
  #tooLate(cause?: unknown): void {
    if (this.#done) return
    const times = this.#restarts === 1 ? '' : `, ${this.#restarts} times`
    const message = `The ${this.#desk.backend.name} store answered too late${times}.`
    this.#finish()
    this.#reject(new BackendError(message, { retryable: true, ...(cause === undefined ? {} : { cause }) }))
  }

  #again(tries: number, fn: () => void): void {
    this.#cancelRetry = this.#desk.at(this.#desk.clock.now() + this.#desk.retryMs(tries), () => {
      if (!this.#done) fn()
    })
  }

  #timeOut(waitMs: number): void {
    const { name } = this.#wish.line
    const place = this.#place
    // Nothing was heard of the store, or a failure at last: it may have been free for long.
    if (place.state === 'joining' || place.failures > 0) {
      const cause = place.state === 'joining' ? this.#lastError : place.lastFailure
      const message = `The ${this.#desk.backend.name} store did not answer for '${name}' at the end of ${Math.round(waitMs)} ms, so whether it is free is unknown.`
      return this.#giveUp(new BackendError(message, { retryable: true, ...(cause === undefined ? {} : { cause }) }))
    }
    publish('timeout', () => ({ ...this.#desk.describe(place), ms: waitMs }))
    const ahead = place.ahead === undefined ? '' : ` (${place.ahead} ahead)`
    this.#giveUp(
      new LockTimeoutError(
        `'${name}' was not free within ${Math.round(waitMs)} ms${ahead}. See who holds it with view('${name}') or 'holdfast show ${name}', or wait longer.`,
      ),
    )
  }

  #giveUp(error: unknown): void {
    if (this.#done) return
    const place = this.#place
    const stood = place.state === 'joining' || place.state === 'waiting'
    if (stood) {
      this.#desk.keeper.forget(place)
      place.state = 'left'
    }
    this.#finish()
    this.#reject(error)
    if (stood) this.#desk.leaveInBackground(place)
  }

  #later(cleanup: () => void): void {
    this.#cleanups ??= []
    this.#cleanups.push(cleanup)
  }

  #finish(): void {
    this.#done = true
    this.#desk.pending.delete(this)
    for (const cleanup of this.#cleanups ?? []) cleanup()
    this.#cancelRetry?.()
    this.#desk.alive.end()
  }
}
