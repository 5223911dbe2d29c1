import type { Receiver } from './batcher.js'
import type { Desk } from './desk.js'
import { BackendError } from './errors.js'
import type { Place } from './place.js'

interface Terms {
  /** For how long others are kept out although it left. */
  readonly keepMs: number
  readonly until: number
  /** Goes on in the background when that time is over. */
  readonly insist: boolean
}

/**
 * One ticket on its way out: tells the store that it leaves, and goes on telling it until it answers or the ticket has
 * lapsed by itself. Rejects with the last error when the outcome stays unknown.
 */
export class Farewell implements Receiver<boolean | BackendError> {
  readonly #desk: Desk
  readonly #place: Place
  readonly #terms: Terms
  readonly #resolve: (held: boolean) => void
  readonly #reject: (error: unknown) => void
  #failures = 0

  constructor(
    desk: Desk,
    place: Place,
    terms: Terms,
    resolve: (held: boolean) => void,
    reject: (error: unknown) => void,
  ) {
    this.#desk = desk
    this.#place = place
    this.#terms = terms
    this.#resolve = resolve
    this.#reject = reject
  }

  send(): void {
    const { keepMs } = this.#terms
    // Asked again, it is kept for what is left by then.
    const leftMs = keepMs === 0 ? 0 : Math.min(keepMs, this.#place.keepMs(this.#desk.clock.now()))
    this.#desk.lanes.leave.send(this.#place.leaveRequest(leftMs), this)
  }

  answered(result: boolean | BackendError): void {
    if (typeof result !== 'boolean') return this.failed(result)
    this.#desk.left()
    this.#resolve(result)
  }

  failed(error: unknown): void {
    const desk = this.#desk
    this.#failures += 1
    const retryable = error instanceof BackendError && error.retryable
    const now = desk.clock.now()
    const end = Math.min(this.#terms.until, desk.closingUntil)
    if (!retryable || now >= end) {
      if (this.#terms.insist) desk.leaveInBackground(this.#place, this.#terms.keepMs)
      desk.left()
      return this.#reject(error)
    }
    desk.at(now + Math.min(desk.retryMs(this.#failures), Math.max(1, end - now)), () => this.send())
  }
}
