import type { Desk } from './desk.js'
import { ClosedError } from './errors.js'
import { publish } from './events.js'
import type { Place } from './place.js'

/** A granted ticket and the handles to it: re-entry makes more handles, and the last to be released leaves the line. */
export class Hold {
  readonly desk: Desk
  readonly place: Place
  #handles = 0
  #farewell: Promise<boolean> | undefined

  constructor(desk: Desk, place: Place) {
    this.desk = desk
    this.place = place
  }

  get handles(): number {
    return this.#handles
  }

  /** Nobody holds it any more: released, handed over, or lost. */
  get over(): boolean {
    return this.#farewell !== undefined || this.place.state !== 'held'
  }

  enter(): void {
    this.#handles += 1
  }

  /** Gives one handle back. True when the hold was still ours. */
  leave(): Promise<boolean> {
    this.#handles -= 1
    if (this.#handles > 0) return Promise.resolve(this.state() !== 'lost')
    this.#farewell ??= this.#release(true)
    return this.#farewell
  }

  /** Gives one handle back as if it had never been: what a group took on its way to all keeps nobody out. */
  undo(): Promise<boolean> {
    this.#handles -= 1
    if (this.#handles > 0) return Promise.resolve(true)
    this.#farewell ??= this.#release(false)
    return this.#farewell
  }

  /** Lets go of the ticket without leaving the line: another process goes on with it. */
  letGo(): void {
    this.#handles = 0
    this.#farewell = Promise.resolve(false)
    this.desk.keeper.forget(this.place)
    this.place.state = 'left'
  }

  /** What can be said of the hold at this moment, by the clock and not by what a timer found. */
  state(now: number = this.desk.clock.now()): 'held' | 'uncertain' | 'lost' | 'released' {
    const { desk, place } = this
    if (place.state === 'lost' || (place.kept && place.lostBecause !== undefined)) return 'lost'
    if (place.state !== 'held' || place.kept) return 'released'
    if (now >= place.deadline) {
      desk.keeper.lose(place, 'its lease ran out before the store answered a renewal')
      return 'lost'
    }
    if (place.doubt) return 'uncertain'
    if (!desk.leaps.since(place.leaseSentAt, now)) return 'held'
    desk.keeper.toldUnsure(place)
    return 'uncertain'
  }

  /** `keep`: others are kept out for what is left of its `minHold`. */
  #release(keep: boolean): Promise<boolean> {
    const { desk, place } = this
    const now = desk.clock.now()
    const wasHeld = this.state(now) !== 'lost'
    const keepMs = keep && wasHeld ? place.keepMs(now) : 0
    // `close` has told the store already, or is about to; and once closed, what was lost before lapses by itself.
    if (place.lostBecause instanceof ClosedError || desk.closed) return Promise.resolve(false)
    // Not less where it lapses before: "gone" is an answer, and a renewal that was never answered may have prolonged it.
    const until = now + desk.callTimeoutMs
    publish('release', () => ({ ...desk.describe(place), ms: now - place.heldSince }))
    if (keepMs > 0 && desk.backend.guarantees.minHold === 'process') {
      desk.keepThenLeave(place, keepMs)
      return Promise.resolve(true)
    }
    desk.keeper.forget(place)
    if (wasHeld) place.state = 'left'
    return desk.leave(place, keepMs, until, true)
  }
}
