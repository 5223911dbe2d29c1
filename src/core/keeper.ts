import type { Standing } from './backend.js'
import type { Desk } from './desk.js'
import { LockLostError } from './errors.js'
import { publish } from './events.js'
import type { Place } from './place.js'
import { mayRenew, Renewals } from './renewals.js'

/**
 * Keeps tickets alive, held or waiting, and turns what the store says of them into belief: held, in doubt, lost.
 */
export class Keeper {
  readonly renewals: Renewals
  readonly #desk: Desk

  constructor(desk: Desk) {
    this.#desk = desk
    this.renewals = new Renewals(desk, this)
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
    if (leftMs <= 0) return this.renewals.now(place)
    this.renewals.soon(place, now, leftMs)
    this.#hold(place, now)
    this.renewals.sleep(place)
  }

  toldGone(place: Place): void {
    if (place.state === 'held') this.lose(place, 'it was evicted, or the session that kept it ended')
    else this.#gone(place)
  }

  toldUnsure(place: Place): void {
    if (place.state === 'held') {
      this.doubt(place)
      if (mayRenew(place, this.#desk.clock.now())) this.renewals.now(place)
    } else if (place.state === 'waiting') {
      this.renewals.now(place)
    }
  }

  wake(place: Place, now: number): void {
    if (place.state === 'held') {
      if (now >= place.deadline) return this.lose(place, 'its lease ran out before the store answered a renewal')
      if (this.#desk.leaps.since(place.leaseSentAt, now)) {
        this.doubt(place)
        if (mayRenew(place, now)) place.renewAt = now
      }
    }
    this.renewals.due(place, now)
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
    this.renewals.beat(place)
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

  #waiting(place: Place, standing: Standing & { state: 'waiting' }, sentAt: number): void {
    if (place.state === 'held') {
      // An answer from before the grant says nothing about it; a later one says that the store lost it.
      if (sentAt < place.heldSince) return this.renewals.now(place)
      return this.lose(place, 'the store says that others stand before it')
    }
    const first = place.state === 'joining'
    if (first) this.#desk.waiting.set(place.id, place)
    place.state = 'waiting'
    place.ahead = standing.ahead
    place.failures = 0
    place.leased(sentAt, standing.ttlMs)
    place.renewAt = sentAt + Math.min(standing.lookAgainMs, standing.ttlMs / 3)
    this.renewals.sleep(place)
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

  /** Held as far as we know, until the store answers a renewal. */
  doubt(place: Place): void {
    if (place.doubt) return
    place.doubt = true
    publish('uncertain', () => this.#desk.describe(place))
  }
}
