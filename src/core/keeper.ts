import type { Holder, Standing } from './backend.js'
import type { Answer } from './batcher.js'
import type { Desk } from './desk.js'
import { BackendError, LockLostError } from './errors.js'
import { publish } from './events.js'
import type { Place } from './place.js'

/** Renewals fall on this many instants a period, so that many leases travel in few calls. */
const BEATS = 8
/**
 * A hold that a push told of starts on what is left of the waiting lease, and is renewed to its full ttl this much
 * later: most holds of a busy line are over by then, and their leave does not stand behind a renewal that nobody needs.
 */
const FIRST_RENEWAL_MS = 10

/**
 * Keeps tickets alive, held or waiting, on one schedule for the whole client, and turns what the
 * store says of them into belief: held, in doubt, lost.
 */
export class Keeper {
  readonly #desk: Desk

  constructor(desk: Desk) {
    this.#desk = desk
  }

  /** Takes a place into its care: what is heard of it from now on counts. */
  admit(place: Place): void {
    place.keeper = this
    this.#desk.places.add(place)
  }

  /** Sends the join and takes in its answer. */
  join(place: Place, wait: boolean): void {
    const desk = this.#desk
    const pushedAt = desk.clock.now()
    desk.leaps.note(pushedAt)
    this.admit(place)
    // Counted from the first send of this id: a push may tell of a grant while a repeated join, which
    // would restart the lease, has not reached the store.
    if (place.failedJoins === 0) place.leased(pushedAt, place.waitTtlMs)
    // Until answered: a copy of it may arrive at any time.
    place.unanswered = true
    place.lastJoinAt = pushedAt
    desk.lanes.join.send(place.joinRequest(wait), place)
  }

  /** Takes in the answer to a join. */
  joined(place: Place, standing: Standing, sentAt: number): void {
    if (standing.state === 'failed') return this.joinFailed(place, standing.error)
    // With an earlier attempt unanswered, a copy of that one may still be under way.
    if (place.failedJoins === 0) place.unanswered = false
    this.#heard(place)
    if (place.state !== 'joining') return this.#joinedLate(place, standing, sentAt)
    this.take(place, standing, sentAt)
  }

  /** The join was not answered: neither yes nor no. */
  joinFailed(place: Place, error: unknown): void {
    place.failedJoins += 1
    if (place.state === 'joining') place.waiter?.failed(place, error)
  }

  /** A push said so: hold with what is left of the waiting lease, which is all that is believed in until it is renewed. */
  toldGranted(place: Place, order: bigint): void {
    if (place.state !== 'joining' && place.state !== 'waiting') return
    place.order = order
    const now = this.#desk.clock.now()
    const leftMs = place.believedUntil - now
    if (leftMs <= 0) return this.renewNow(place)
    place.renewAt = now + Math.min(FIRST_RENEWAL_MS, leftMs / 3)
    this.#hold(place, now)
    this.#sleep(place)
  }

  toldGone(place: Place): void {
    if (place.state === 'held') this.lose(place, 'it was evicted, or the session that kept it ended')
    else this.#gone(place)
  }

  toldUnsure(place: Place): void {
    if (place.state === 'held') {
      this.#doubt(place)
      if (mayRenew(place, this.#desk.clock.now())) this.renewNow(place)
    } else if (place.state === 'waiting') {
      this.renewNow(place)
    }
  }

  wake(place: Place, now: number): void {
    if (place.state === 'held') {
      if (now >= place.deadline) return this.lose(place, 'its lease ran out before the store answered a renewal')
      if (this.#desk.leaps.since(place.leaseSentAt, now)) {
        this.#doubt(place)
        if (mayRenew(place, now)) place.renewAt = now
      }
    }
    if (now >= place.renewAt && !place.renewing) this.#renew(place)
    this.#sleep(place)
  }

  /** Renews as soon as no renewal is under way. */
  renewNow(place: Place): void {
    place.renewAt = this.#desk.clock.now()
    if (!place.renewing) this.#renew(place)
    this.#sleep(place)
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
    this.#heard(place)
    if (result.state === 'failed') throw result.error
    this.take(place, result, sentAt)
  }

  /** The hold is over: say so once, and keep nothing. */
  lose(place: Place, why: string, reason?: unknown): void {
    if (place.state !== 'held') return
    const { name } = place.wish.line
    place.state = 'lost'
    place.lostBecause =
      reason ??
      new LockLostError(
        `'${name}' is lost: ${why}. Stop writing, or let the resource refuse fences below the newest it saw.`,
      )
    this.forget(place)
    publish('lost', () => ({ ...this.#desk.describe(place), error: place.lostBecause }))
    // A session may live on where the hold's own time is over (maxHold, renew: false, a long outage): what it keeps must go.
    // (When the client is closed, `letGo` tells the store itself, with what is left of the minHold.)
    if (reason === undefined && this.#desk.backend.guarantees.lease === 'session') this.#desk.leaveInBackground(place)
    place.tellLost()
  }

  forget(place: Place): void {
    this.#desk.places.delete(place)
    this.#waitsNoMore(place)
    this.#desk.alarms.clear(place)
  }

  #heard(place: Place): void {
    place.lastAnswerAt = this.#desk.clock.now()
  }

  // The push came first, or the caller gave up meanwhile (then the leave with its tombstone is on its way).
  #joinedLate(place: Place, standing: Standing, sentAt: number): void {
    if (place.state === 'held' && standing.state === 'granted') this.#extend(place, standing.ttlMs, sentAt)
  }

  /** Turns what the store says of a place into belief. */
  take(place: Place, standing: Standing, sentAt: number): void {
    if (place.state === 'left' || place.state === 'lost') return
    switch (standing.state) {
      case 'granted':
        place.order = standing.order
        return this.#extend(place, standing.ttlMs, sentAt)
      case 'waiting':
        return this.#waiting(place, standing, sentAt)
      case 'refused':
        this.forget(place)
        place.state = 'left'
        // Refused, but an earlier copy may still arrive and find the line free: bury it.
        if (place.unanswered) this.#desk.leaveInBackground(place)
        return place.waiter?.refused(place)
      case 'gone':
        if (place.state === 'held') return this.lose(place, 'the store does not know the ticket any more')
        return this.#gone(place)
      case 'failed':
        return place.waiter?.failed(place, standing.error)
    }
  }

  #extend(place: Place, leaseMs: number, sentAt: number): void {
    const now = this.#desk.clock.now()
    if (sentAt >= place.leaseSentAt || place.state !== 'held') place.leased(sentAt, leaseMs)
    if (now >= place.believedUntil) {
      // The answer came after its own lease had ended: it is no hold. Stand in line again.
      if (place.state === 'held') return this.lose(place, 'the answer to its renewal came too late')
      return this.#gone(place)
    }
    place.doubt = this.#desk.leaps.since(place.leaseSentAt, now)
    this.#hold(place, now)
    this.#beat(place)
  }

  #hold(place: Place, now: number): void {
    place.deadline = place.believedUntil
    if (place.state === 'held') return
    this.#waitsNoMore(place)
    place.state = 'held'
    place.heldSince = now
    place.failures = 0
    place.waiter?.granted(place)
  }

  /** Sets the next renewal to a third of the ttl from now, on a beat that other leases share. */
  #beat(place: Place): void {
    const { leaseMs } = place
    // Of what is believed: with a grace longer than the ttl, a third of the store's lease would come too late.
    const thirdMs = (leaseMs - Math.min(place.wish.options.graceMs, leaseMs)) / 3
    const next = place.leaseSentAt + thirdMs
    const quantum = Math.max(1, thirdMs / BEATS)
    place.renewAt = mayRenew(place, next) ? Math.floor(next / quantum) * quantum : Number.POSITIVE_INFINITY
    this.#sleep(place)
  }

  #waiting(place: Place, standing: Standing & { state: 'waiting' }, sentAt: number): void {
    if (place.state === 'held') {
      // An answer from before the grant says nothing about it; a later one says that the store lost it.
      if (sentAt < place.heldSince) return this.renewNow(place)
      return this.lose(place, 'the store says that others stand before it')
    }
    const first = place.state === 'joining'
    if (first) this.#desk.waiting.set(place.id, place)
    place.state = 'waiting'
    place.ahead = standing.ahead
    place.failures = 0
    place.leased(sentAt, standing.ttlMs)
    place.renewAt = sentAt + Math.min(standing.lookAgainMs, standing.ttlMs / 3)
    this.#sleep(place)
    if (first) publish('wait', () => ({ ...this.#desk.describe(place), ahead: standing.ahead }))
  }

  #waitsNoMore(place: Place): void {
    if (this.#desk.waiting.size > 0) this.#desk.waiting.delete(place.id)
  }

  #gone(place: Place): void {
    if (place.state !== 'joining' && place.state !== 'waiting') return
    this.forget(place)
    place.state = 'left'
    place.waiter?.gone(place)
  }

  #doubt(place: Place): void {
    if (place.doubt) return
    place.doubt = true
    publish('uncertain', () => this.#desk.describe(place))
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
        this.#renewFailed(place, error)
      },
    )
  }

  // A lost reply is not a lost lock: doubt, and ask again until the deadline decides.
  #renewFailed(place: Place, error: unknown): void {
    if (place.state !== 'held' && place.state !== 'waiting') return
    place.failures += 1
    place.lastFailure = error
    this.#desk.report(place, error)
    if (place.state === 'held') this.#doubt(place)
    else if (!(error instanceof BackendError && error.retryable)) return place.waiter?.failed(place, error)
    else if (this.#desk.clock.now() - place.lastAnswerAt > patienceMs(place)) return place.waiter?.failed(place, error)
    place.renewAt = Math.min(place.renewAt, this.#desk.clock.now() + this.#desk.retryMs(place.failures))
    this.#sleep(place)
  }

  /** A renewal that was asked for while one was under way goes out now. */
  #again(place: Place): void {
    if (place.state !== 'held' && place.state !== 'waiting') return
    if (place.renewAt <= this.#desk.clock.now()) this.#renew(place)
    this.#sleep(place)
  }

  #sleep(place: Place): void {
    if (place.state !== 'held' && place.state !== 'waiting') return
    const renewAt = place.renewing ? Number.POSITIVE_INFINITY : place.renewAt
    const wakeAt = place.state === 'held' ? Math.min(place.deadline, renewAt) : renewAt
    if (wakeAt === Number.POSITIVE_INFINITY) this.#desk.alarms.clear(place)
    else this.#desk.alarms.set(place, wakeAt)
  }
}

/** How long a store may be out of reach before a pending acquire says so: longer than a lease, and than a failover. */
export function patienceMs(place: Place): number {
  return Math.max(place.ttlMs, 15_000)
}

/** A hold that its options leave to end by itself is not prolonged by doubt either: a hung holder stays bounded. */
function mayRenew(place: Place, at: number): boolean {
  const { renew, maxHoldMs } = place.wish.options
  return renew && at - place.heldSince < maxHoldMs
}
