import type { Clock } from './clock.js'

/** A suspended machine sleeps for seconds; clocks that are merely disciplined differ by less than this in a second. */
const LEAP_MS = 50
/** Looks at most this often where it is done on the way: clocks drift apart slowly. */
const LOOK_EVERY_MS = 1_000
/** The uptime is a file read on Linux: looked at this often, and whenever the wall clock did anything odd. */
const UPTIME_EVERY_MS = 100

/**
 * Notices that the machine slept.
 *
 * The monotonic clock may stand still while a laptop or a VM is suspended, and the store's does not.
 * So where the wall clock or the uptime ran ahead of it, every lease set before that is in doubt
 * until it is renewed. Both may only shorten belief: a clock that goes back proves nothing.
 */
export class Leaps {
  readonly #clock: Clock
  #wallLead: number
  #uptimeLead: number
  #uptimeLookedAt: number
  #lookedAt: number
  #leapAt = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
    const now = clock.now()
    this.#wallLead = clock.wall() - now
    this.#uptimeLead = clock.uptime() - now
    this.#uptimeLookedAt = now
    this.#lookedAt = now
  }

  /** Looks if it has not done so lately: to be called before a lease is set, so that later looks compare with then. */
  note(now: number): void {
    if (now - this.#lookedAt >= LOOK_EVERY_MS) this.#look(now)
  }

  /** True when the machine slept, for all we know, after this moment. */
  since(moment: number, now: number): boolean {
    this.#look(now)
    return moment < this.#leapAt
  }

  #look(now: number): void {
    const wallLead = this.#clock.wall() - now
    const wallStep = wallLead - this.#wallLead
    if (wallStep > LEAP_MS) this.#leapAt = now
    this.#wallLead = wallLead
    this.#lookedAt = now
    if (now - this.#uptimeLookedAt < UPTIME_EVERY_MS && Math.abs(wallStep) <= LEAP_MS) return
    const uptimeLead = this.#clock.uptime() - now
    if (uptimeLead - this.#uptimeLead > LEAP_MS) this.#leapAt = now
    this.#uptimeLead = uptimeLead
    this.#uptimeLookedAt = now
  }
}
