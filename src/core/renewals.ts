import type { Holder, Standing } from './backend.js'
import type { Answer } from './batcher.js'
import type { Desk } from './desk.js'
import { BackendError } from './errors.js'
import { publish } from './events.js'
import type { Place } from './place.js'

/** Renewals fall on this many instants a period, so that many leases travel in few calls. */
const BEATS = 8
/**
 * A hold that a push told of starts on what is left of the waiting lease, and is renewed to its full ttl this much
 * later: most holds of a busy line are over by then, and their leave does not stand behind a renewal that nobody needs.
 */
const FIRST_RENEWAL_MS = 10

/** Who makes something of what a renewal brought. */
interface Believer {
  take(place: Place, standing: Standing, sentAt: number): void
  doubt(place: Place): void
}

/** When each ticket is renewed, held or waiting: one schedule for the whole client. */
export class Renewals {
  readonly #desk: Desk
  readonly #believer: Believer

  constructor(desk: Desk, believer: Believer) {
    this.#desk = desk
    this.#believer = believer
  }

  /** Sets the next renewal to a third of the ttl from now, on a beat that other leases share. */
  beat(place: Place): void {
    const { leaseMs } = place
    // Of what is believed: with a grace longer than the ttl, a third of the store's lease would come too late.
    const thirdMs = (leaseMs - Math.min(place.wish.options.graceMs, leaseMs)) / 3
    const next = place.leaseSentAt + thirdMs
    const quantum = Math.max(1, thirdMs / BEATS)
    place.renewAt = mayRenew(place, next) ? Math.floor(next / quantum) * quantum : Number.POSITIVE_INFINITY
    this.sleep(place)
  }

  /** The first renewal of a hold that begins with what is left of a waiting lease. */
  soon(place: Place, now: number, leftMs: number): void {
    place.renewAt = now + Math.min(FIRST_RENEWAL_MS, leftMs / 3)
  }

  /** Renews as soon as no renewal is under way. */
  now(place: Place): void {
    place.renewAt = this.#desk.clock.now()
    if (!place.renewing) this.#renew(place)
    this.sleep(place)
  }

  /** Renews where it is time to. */
  due(place: Place, now: number): void {
    if (now >= place.renewAt && !place.renewing) this.#renew(place)
    this.sleep(place)
  }

  /** One renewal, its answer taken in; throws what the store threw. With a holder, the ticket is that holder's from now on. */
  async renewed(place: Place, nextHolder?: Holder): Promise<void> {
    const request = nextHolder === undefined ? place.renewRequest() : { ...place.renewRequest(), nextHolder }
    place.renewals += 1
    let answer: Answer<Standing> | undefined
    try {
      answer = await this.#desk.lanes.renew.push(request)
    } finally {
      const isAnswered = answer !== undefined && answer.result.state !== 'failed'
      place.renewalEnded(isAnswered, this.#desk.clock.now())
    }
    const { result, sentAt } = answer
    place.lastAnswerAt = this.#desk.clock.now()
    if (result.state === 'failed') throw result.error
    place.failures = 0
    this.#believer.take(place, result, sentAt)
  }

  /** Until the next renewal, or until a hold's time is over. */
  sleep(place: Place): void {
    if (place.state !== 'held' && place.state !== 'waiting') return
    const renewAt = place.renewing ? Number.POSITIVE_INFINITY : place.renewAt
    const wakeAt = place.state === 'held' ? Math.min(place.deadline, renewAt) : renewAt
    if (wakeAt === Number.POSITIVE_INFINITY) this.#desk.alarms.clear(place)
    else this.#desk.alarms.set(place, wakeAt)
  }

  #renew(place: Place): void {
    place.renewing = true
    place.renewAt = Number.POSITIVE_INFINITY
    this.#desk.leaps.note(this.#desk.clock.now())
    this.renewed(place).then(
      () => {
        place.renewing = false
        if (place.state === 'held') publish('renew', () => this.#desk.describe(place))
        this.#again(place)
      },
      (error: unknown) => {
        place.renewing = false
        this.#failed(place, error)
      },
    )
  }

  // A lost reply is not a lost lock: doubt, and ask again until the deadline decides.
  #failed(place: Place, error: unknown): void {
    if (place.state !== 'held' && place.state !== 'waiting') return
    place.failures += 1
    place.lastFailure = error
    this.#desk.report(place, error)
    if (place.state === 'held') this.#believer.doubt(place)
    else if (!(error instanceof BackendError && error.retryable)) return place.waiter?.failed(place, error)
    else if (this.#desk.clock.now() - place.lastAnswerAt > patienceMs(place)) return place.waiter?.failed(place, error)
    place.renewAt = Math.min(place.renewAt, this.#desk.clock.now() + this.#desk.retryMs(place.failures))
    this.sleep(place)
  }

  /** A renewal that was asked for while one was under way goes out now. */
  #again(place: Place): void {
    if (place.state !== 'held' && place.state !== 'waiting') return
    if (place.renewAt <= this.#desk.clock.now()) this.#renew(place)
    this.sleep(place)
  }
}

/** How long a store may be out of reach before a pending acquire says so: longer than a lease, and than a failover. */
export function patienceMs(place: Place): number {
  return Math.max(place.ttlMs, 15_000)
}

/** A hold that its options leave to end by itself is not prolonged by doubt either: a hung holder stays bounded. */
export function mayRenew(place: Place, at: number): boolean {
  const { renew, maxHoldMs } = place.wish.options
  return renew && at - place.heldSince < maxHoldMs
}
