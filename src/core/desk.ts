import { Aborts } from './aborts.js'
import { AlarmClock } from './alarm.js'
import type { Backend, BackendEvents } from './backend.js'
import type { Clock } from './clock.js'
import { ClosedError } from './errors.js'
import { publish } from './events.js'
import { Farewell } from './farewell.js'
import { Keeper } from './keeper.js'
import { Lanes } from './lanes.js'
import { Leaps } from './leaps.js'
import { isSameLine, type LineKey } from './line.js'
import { Liveliness } from './liveliness.js'
import type { Place } from './place.js'
import { type Member, Roster } from './roster.js'

/** A failed call is tried again after this, then after twice as long, up to the most. */
const FIRST_RETRY_MS = 20
const LONGEST_RETRY_MS = 1_000

/** What `close` ends: an acquire, or a question, that has no answer yet. */
export interface Pending extends Member<Pending> {
  end(): void
}

export function pending(end: () => void): Pending {
  return { end, listed: false, previous: undefined, next: undefined }
}

/** What all tickets of one client share: the clock, the ways to the store, the alarm clock and the keeper. */
export class Desk {
  readonly backend: Backend
  readonly clock: Clock
  readonly lanes: Lanes
  readonly alarms: AlarmClock
  readonly leaps: Leaps
  readonly keeper: Keeper
  readonly aborts: Aborts = new Aborts()
  readonly alive: Liveliness = new Liveliness()
  /** Every ticket that may still get an answer that matters. */
  readonly places: Roster<Place> = new Roster()
  /** Those of them that wait, by id: the ones that hints are about. */
  readonly waiting: Map<string, Place> = new Map()
  readonly callTimeoutMs: number
  /** What may still leave a ticket behind; `close` waits for it. */
  readonly farewells: Set<Promise<unknown>> = new Set()
  /** The acquires that are still pending. */
  readonly pending: Roster<Pending> = new Roster()
  /** Calls of `leave` under way. Counted, for a release on the hot path needs no further promise. */
  #leaving = 0
  #allLeft: (() => void) | undefined
  closing = false
  /** Nothing reaches the store any more. */
  closed = false
  /** Once closing, nothing is tried for longer than this. */
  closingUntil: number = Number.POSITIVE_INFINITY

  constructor(backend: Backend, clock: Clock, callTimeoutMs: number) {
    this.backend = backend
    this.clock = clock
    this.callTimeoutMs = callTimeoutMs
    this.lanes = new Lanes(backend, clock, callTimeoutMs)
    this.alarms = new AlarmClock(clock)
    this.leaps = new Leaps(clock)
    this.keeper = new Keeper(this)
  }

  /** What the backend reports. Hints for tickets that wait, and bad news for those that hold. */
  readonly events: BackendEvents = {
    granted: (id, order) => {
      // The hint may overtake the answer to the join itself.
      const place = this.waiting.get(id) ?? this.places.find((one) => one.id === id)
      if (place !== undefined) this.keeper.toldGranted(place, order)
    },
    moved: (line: LineKey) => {
      for (const place of [...this.waiting.values()]) {
        if (isSameLine(place.wish.line, line)) this.keeper.renewals.now(place)
      }
    },
    lost: (ids) => {
      const lost = new Set(ids)
      for (const place of this.places) if (lost.has(place.id)) this.keeper.toldGone(place)
    },
    unsure: (ids) => {
      const unsure = ids === undefined ? undefined : new Set(ids)
      for (const place of this.places) if (unsure?.has(place.id) ?? true) this.keeper.toldUnsure(place)
    },
  }

  /** How long to pause before try number `failures` + 1, with jitter so that clients do not march in step. */
  retryMs(failures: number): number {
    const base = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(failures - 1, 10))
    return base * (0.5 + this.clock.random() / 2)
  }

  /** Calls back at a monotonic time, on the one timer; the returned function takes it back. */
  at(time: number, fn: () => void): () => void {
    const nap = { wakeAt: 0, place: -1, wake: fn }
    this.alarms.set(nap, time)
    return () => this.alarms.clear(nap)
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.at(this.clock.now() + ms, resolve))
  }

  /**
   * Tells the store that a ticket leaves, until it answers or the time is over; then rejects with the last error. Who
   * insists has waited long enough and learns that the outcome is unknown, but the store is still told.
   */
  leave(place: Place, keepMs: number, until: number, insist = false): Promise<boolean> {
    this.alive.begin()
    this.#leaving += 1
    return new Promise((resolve, reject) => {
      new Farewell(this, place, { keepMs, until, insist }, resolve, reject).send()
    })
  }

  /** One of those that leave has ended. */
  left(): void {
    this.alive.end()
    this.#leaving -= 1
    if (this.#leaving === 0) this.#allLeft?.()
  }

  /** Leaves without making anyone wait for it; for as long as the ticket, or a join of it, may still be out there. */
  leaveInBackground(place: Place, keepMs = 0): void {
    this.leave(place, keepMs, place.leaveUntil).catch((error: unknown) => this.report(place, error))
  }

  /** The store cannot keep others out by itself, so the ticket is kept alive until then: for as long as this process lives. */
  keepThenLeave(place: Place, keepMs: number): void {
    place.kept = true
    const leave = async (): Promise<void> => {
      await this.pause(keepMs)
      this.keeper.forget(place)
      place.state = 'left'
      await this.leave(place, 0, place.leaveUntil)
    }
    void this.seeOff(leave().catch((error: unknown) => this.report(place, error)))
  }

  /** Lets go of what is held when the client is closed; like any release, not before its `minHold`. */
  letGo(place: Place): void {
    if (place.state !== 'held' || place.kept) return
    const keepMs = place.keepMs(this.clock.now())
    const reason = new ClosedError(`The client was closed while it held '${place.wish.line.name}'.`)
    if (keepMs > 0 && this.backend.guarantees.minHold === 'process') {
      place.lostBecause = reason
      place.tellLost()
      return this.keepThenLeave(place, keepMs)
    }
    this.keeper.lose(place, 'the client was closed', reason)
    this.leave(place, keepMs, place.leaveUntil).catch((error: unknown) => this.report(place, error))
  }

  /** Has `close` wait for it. It must end by itself. */
  seeOff<T>(work: Promise<T>): Promise<T> {
    const farewell: Promise<unknown> = work.then(
      () => this.farewells.delete(farewell),
      () => this.farewells.delete(farewell),
    )
    this.farewells.add(farewell)
    return work
  }

  /** An error that has no caller to go to goes to the diagnostics channel. */
  report(place: Place, error: unknown): void {
    publish('error', () => ({ ...this.describe(place), error }))
  }

  describe(place: Place): {
    store: string
    kind: LineKey['kind']
    name: string
    id: string
    owner: string
    fence?: bigint
  } {
    return {
      store: this.backend.name,
      kind: place.wish.line.kind,
      name: place.wish.line.name,
      id: place.id,
      owner: place.holder.owner,
      ...(place.order === undefined ? undefined : { fence: place.order }),
    }
  }

  async close(): Promise<void> {
    // Each farewell ends by itself: answered, or lapsed. One that ends may start another, such as an undo.
    while (this.farewells.size > 0 || this.#leaving > 0) {
      await Promise.all(this.farewells)
      if (this.#leaving > 0) await new Promise<void>((resolve) => void (this.#allLeft = resolve))
    }
    this.closed = true
    this.alarms.close()
    this.lanes.close()
  }
}
