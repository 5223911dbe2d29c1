import { ConfigError, LockError, LockLostError, UnsupportedError } from './errors.js'
import { publish } from './events.js'
import type { Hold } from './hold.js'
import { type Duration, durationMs } from './duration.js'
import { checkLease } from './guarantees.js'
import type { Holder } from './backend.js'
import { serializeTicket } from './handover.js'
import { pids } from './options.js'

/** held: by the clock, ours · uncertain: as far as we know · lost: not ours any more · released: given back */
export type LeaseState = 'held' | 'uncertain' | 'lost' | 'released'

/** A hold on one line: the handle that is renewed, watched and released. */
export class Lease implements AsyncDisposable {
  readonly name: string
  readonly owner: string
  /** Grows from holder to holder: let the protected resource refuse anything below the newest it saw. */
  readonly fence: bigint
  readonly #hold: Hold
  #released: Promise<boolean> | undefined
  #controller: AbortController | undefined
  #stopListening: (() => void) | undefined

  /** @internal */
  constructor(hold: Hold) {
    this.#hold = hold
    this.name = hold.place.wish.line.name
    this.owner = hold.place.holder.owner
    this.fence = hold.place.order!
    hold.enter()
  }

  /** Aborts when the hold is lost, with a LockLostError as its reason. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController()
      this.#controller = controller
      if (this.state === 'lost') controller.abort(this.#hold.place.lostBecause)
      else if (this.#released === undefined) this.#listen((reason) => controller.abort(reason))
    }
    return this.#controller.signal
  }

  /** By the clock, at this moment; right even after a stalled event loop. */
  get state(): LeaseState {
    return this.#released === undefined ? this.#hold.state() : 'released'
  }

  /** How long the hold may still be believed in; 0 when it is over. */
  get remainingMs(): number {
    const state = this.state
    if (state === 'lost' || state === 'released') return 0
    return Math.max(0, this.#hold.place.deadline - this.#hold.desk.clock.now())
  }

  /** Throws LockLostError unless the hold is certain. */
  assertHeld(): void {
    const state = this.state
    if (state === 'held') return
    if (state === 'lost') throw this.#lostError()
    const what = state === 'uncertain' ? 'is in doubt until the store answers a renewal' : 'was released'
    throw new LockLostError(`'${this.name}' ${what}.`)
  }

  /** Renews now, with the ttl given from now on. Throws LockLostError when the hold is over. */
  async renew(ttl?: Duration): Promise<void> {
    const { desk, place } = this.#hold
    if (ttl !== undefined) {
      const ttlMs = durationMs(ttl, 'ttl')
      checkLease(desk.backend.name, desk.backend.guarantees, { ...place.wish.options, ttlMs })
      place.changeTtl(ttlMs, desk.clock.now())
      if (this.state !== 'lost') desk.keeper.renewals.beat(place)
    }
    await this.#renew()
  }

  /** Names further processes of this machine that work under the hold, such as a child: see the option `also`. */
  async alsoRunBy(processes: readonly number[]): Promise<void> {
    await this.#renew({ ...this.#hold.place.holder, also: pids(processes) })
  }

  /**
   * Gives the hold back. True when the store confirmed that it was still ours; false when it was gone already, be it by
   * a first try whose answer was lost. Idempotent.
   */
  release(): Promise<boolean> {
    if (this.#released === undefined) {
      // Before the handle counts as released: its own state must still tell.
      const leaving = this.#hold.leave()
      this.#released = leaving
      this.#stopListening?.()
    }
    return this.#released
  }

  /**
   * Makes this handle let go of the ticket, unreleased; `locks.adopt(text)` in another process goes on with it.
   * The text is a secret for as long as the hold lasts.
   */
  async serialize(): Promise<string> {
    const { desk, place } = this.#hold
    if (!desk.backend.guarantees.handover) {
      throw new UnsupportedError(`The ${desk.backend.name} store cannot hand over a hold: it belongs to the session.`)
    }
    this.#assertAlone()
    // The hold starts its way with a full ttl, and this process's end no longer ends it.
    await this.#renew({ ...place.holder, pid: 0 })
    // Taken again, released or handed over meanwhile: two texts, or a text beside a handle, would be two holders.
    this.#assertAlone()
    const text = serializeTicket(place, desk.clock.now())
    this.#hold.letGo()
    this.#released = Promise.resolve(false)
    this.#stopListening?.()
    return text
  }

  /** Never throws: what the user's block threw must not be replaced. A failure goes to the diagnostics channel. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.release()
    } catch (error) {
      publish('error', () => ({ ...this.#hold.desk.describe(this.#hold.place), error }))
    }
  }

  toJSON(): Record<string, unknown> {
    return {
      name: this.name,
      owner: this.owner,
      fence: this.fence.toString(),
      state: this.state,
      remainingMs: Math.round(this.remainingMs),
    }
  }

  /** @internal The hold behind the handle, for re-entry. */
  static holdOf(lease: Lease): Hold {
    return lease.#hold
  }

  /** @internal Gives a handle back as if it had never been taken: no `minHold` is kept for it. */
  static undo(lease: Lease): Promise<boolean> {
    lease.#released ??= lease.#hold.undo()
    lease.#stopListening?.()
    return lease.#released
  }

  async #renew(nextHolder?: Holder): Promise<void> {
    const { desk, place } = this.#hold
    this.#assertNotOver()
    desk.alive.begin()
    try {
      await desk.keeper.renewals.renewed(place, nextHolder)
    } finally {
      desk.alive.end()
    }
    this.#assertNotOver()
  }

  #listen(tell: (reason: unknown) => void): void {
    this.#stopListening = this.#hold.place.whenLost(tell)
  }

  #assertNotOver(): void {
    const state = this.state
    if (state === 'lost') throw this.#lostError()
    if (state === 'released') throw new LockLostError(`'${this.name}' was released.`)
  }

  #assertAlone(): void {
    this.#assertNotOver()
    if (this.#hold.handles === 1) return
    throw new ConfigError(
      `'${this.name}' was taken again inside this hold: release the inner ones before handing it over.`,
    )
  }

  #lostError(): unknown {
    const because = this.#hold.place.lostBecause
    if (because instanceof LockLostError) return because
    const options = because instanceof LockError ? { cause: because } : undefined
    return new LockLostError(`'${this.name}' is lost.`, options)
  }
}
