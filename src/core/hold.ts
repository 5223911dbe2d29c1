import type { Desk } from './desk.js'
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
    this.#farewell ??= this.#release()
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
  state(): 'held' | 'uncertain' | 'lost' | 'released' {
    const { desk, place } = this
    if (place.state === 'lost') return 'lost'
    if (place.state !== 'held') return 'released'
    const now = desk.clock.now()
    if (now >= place.deadline) {
      desk.keeper.lose(place, 'its lease ran out before the store answered a renewal')
      return 'lost'
    }
    if (place.doubt) return 'uncertain'
    if (!desk.leaps.since(place.leaseSentAt, now)) return 'held'
    desk.keeper.toldUnsure(place)
    return 'uncertain'
  }

  async #release(): Promise<boolean> {
    const { desk, place } = this
    const wasHeld = this.state() !== 'lost'
    const now = desk.clock.now()
    const keepMs = wasHeld ? Math.max(0, place.heldSince + place.wish.options.minHoldMs - now) : 0
    const until = Math.min(place.lapsesAt, now + desk.callTimeoutMs)
    publish('release', () => ({ ...desk.describe(place), ms: now - place.heldSince }))
    if (keepMs > 0 && desk.backend.guarantees.minHold === 'process') {
      this.#keepThenLeave(keepMs)
      return true
    }
    desk.keeper.forget(place)
    if (wasHeld) place.state = 'left'
    try {
      return await desk.leave(place, keepMs, until)
    } catch (error) {
      // The caller has waited long enough and learns that the outcome is unknown; the store is still told.
      if (keepMs === 0) desk.leaveInBackground(place)
      throw error
    }
  }

  // The store cannot keep others out by itself, so the ticket is kept alive until then: for as long as this process lives.
  #keepThenLeave(keepMs: number): void {
    const { desk, place } = this
    const farewell = desk
      .pause(keepMs)
      .then(() => {
        desk.keeper.forget(place)
        place.state = 'left'
        return desk.leave(place, 0, place.leaveUntil)
      })
      .catch((error: unknown) => desk.report(place, error))
      .finally(() => desk.farewells.delete(farewell))
    desk.farewells.add(farewell)
  }
}
