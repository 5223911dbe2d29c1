import { randomUUID } from 'node:crypto'
import type { Sleeper } from './alarm.js'
import type { Holder, JoinRequest, LeaveRequest, RenewRequest, Standing } from './backend.js'
import type { Receiver } from './batcher.js'
import type { LineKey } from './line.js'
import type { Resolved } from './options.js'
import type { Member } from './roster.js'

/** What is asked of a line: which one, how much of it, and how it is held. */
export interface Wish {
  readonly line: LineKey
  readonly weight: number
  readonly capacity: number
  readonly options: Resolved
}

/**
 * joining: asked, not answered · waiting: in line · held: granted and believed ·
 * lost: over, though nobody released it · left: released or given up
 */
export type PlaceState = 'joining' | 'waiting' | 'held' | 'lost' | 'left'

/** Who is told what becomes of a ticket that is not held yet. */
export interface Waiter {
  granted(place: Place): void
  refused(place: Place): void
  /** The ticket is not there any more: stand in line again. */
  gone(place: Place): void
  failed(place: Place, error: unknown): void
}

/** What the keeper is told of a place: that it is time to look, and what became of its join. */
interface PlaceKeeper {
  wake(place: Place, now: number): void
  joined(place: Place, standing: Standing, sentAt: number): void
  joinFailed(place: Place, error: unknown): void
}

/** A call to the store that was sent so long ago cannot arrive any more: no socket is kept that long without an answer. */
const CALL_LIFE_MS = 60_000
/** A waiting ticket lives this long without a renewal, so that a dead waiter delays nobody for long. */
const WAIT_TTL_MS = 5_000

/** How much of a lease is not believed in, for clocks that run at different speeds. */
export function driftMs(ttlMs: number): number {
  return ttlMs / 100 + 2
}

/** The client's side of one ticket: what was asked, where it stands, and until when that is believed. */
export class Place implements Sleeper, Receiver<Standing>, Member<Place> {
  readonly id: string
  readonly wish: Wish
  readonly holder: Holder
  readonly waitTtlMs: number
  handle: string
  state: PlaceState = 'joining'
  order: bigint | undefined = undefined
  ahead: number | undefined = undefined
  /** The hold's ttl: the wish's own until `changeTtl` changes it. */
  ttlMs: number
  waiter: Waiter | undefined = undefined
  #onLost: Set<(reason: unknown) => void> | undefined

  /** When the call that last set the lease on the store was sent, and the lease it set. */
  leaseSentAt: number
  leaseMs: number
  /** Monotonic time until which the hold is believed in. */
  deadline: number = Number.NEGATIVE_INFINITY
  heldSince: number = Number.POSITIVE_INFINITY
  /** A renewal failed, or the connection broke: held as far as we know. */
  doubt = false
  /** Some join of this id was never answered: it may still arrive. */
  unanswered = false
  failedJoins = 0
  lastJoinAt: number = Number.NEGATIVE_INFINITY
  lastAnswerAt: number
  /** Renewals under way, and until when one that was never answered may still arrive. */
  renewals = 0
  #strayUntil = Number.NEGATIVE_INFINITY
  /** The lease that a renewal from before the ttl was made longer may still set on the store, and until when it may. */
  #shorter: { readonly leaseMs: number; until: number } | undefined = undefined
  /** Until when it may stand by a longer lease from before the ttl was made shorter. */
  #standsUntil = Number.NEGATIVE_INFINITY
  lostBecause: unknown = undefined
  /** Released, and kept alive for the rest of its `minHold` by this process. */
  kept = false

  /** The keeper's: when to renew next, and whether a renewal is under way. */
  renewAt: number = Number.POSITIVE_INFINITY
  renewing = false
  failures = 0
  /** What the last renewal failed with, where `failures` says that it did. */
  lastFailure: unknown = undefined
  keeper: PlaceKeeper | undefined = undefined
  wakeAt = 0
  place = -1
  listed = false
  previous: Place | undefined = undefined
  next: Place | undefined = undefined

  constructor(wish: Wish, holder: Holder, minTtlMs: number, now: number, id: string = randomUUID()) {
    this.id = id
    this.handle = id
    this.wish = wish
    this.holder = holder
    this.ttlMs = wish.options.ttlMs
    this.waitTtlMs = Math.max(Math.min(this.ttlMs, WAIT_TTL_MS), minTtlMs)
    this.leaseSentAt = now
    this.leaseMs = this.waitTtlMs
    this.lastAnswerAt = now
  }

  wake(now: number): void {
    this.keeper?.wake(this, now)
  }

  answered(standing: Standing, sentAt: number): void {
    this.keeper?.joined(this, standing, sentAt)
  }

  failed(error: unknown): void {
    this.keeper?.joinFailed(this, error)
  }

  /** Calls back once, when the hold is lost; the returned function takes it back. */
  whenLost(tell: (reason: unknown) => void): () => void {
    this.#onLost ??= new Set()
    this.#onLost.add(tell)
    return () => void this.#onLost?.delete(tell)
  }

  tellLost(): void {
    for (const tell of [...(this.#onLost ?? [])]) tell(this.lostBecause)
    this.#onLost = undefined
  }

  /** The lease that the store is asked for: the holder stops believing `grace` before the store lets go. */
  get storeTtlMs(): number {
    return this.ttlMs + this.wish.options.graceMs
  }

  /** Takes over what the store said it set, counted from when it was asked. */
  leased(sentAt: number, leaseMs: number): void {
    this.leaseSentAt = sentAt
    this.leaseMs = this.#atMost(leaseMs, sentAt)
  }

  /**
   * From now on the hold has this ttl. Where it is longer, a renewal or join with the shorter one that was not answered
   * may reach the store after all that follow, and set its own: until then no more than that is believed in.
   */
  changeTtl(ttlMs: number, now: number): void {
    const join = this.unanswered ? this.lastJoinAt + CALL_LIFE_MS : Number.NEGATIVE_INFINITY
    if (ttlMs > this.ttlMs && (this.renewals > 0 || Math.max(this.#strayUntil, join) > now)) {
      this.#shorter = { leaseMs: this.#atMost(this.storeTtlMs, now), until: now + CALL_LIFE_MS }
    }
    this.ttlMs = ttlMs
    if (now + this.storeTtlMs < this.leaseSentAt + this.leaseMs) this.#shorten(now)
  }

  /** The store may have been told of the shorter ttl, and end the hold by it, though its answer is lost. */
  #shorten(now: number): void {
    // Or it was not told: then the ticket stands for as long as before.
    this.#standsUntil = this.lapsesAt
    this.leased(now, this.storeTtlMs)
    this.deadline = Math.min(this.deadline, this.believedUntil)
  }

  /** A renewal is over. Not answered, it may still arrive; all answered, none of them is under way any more. */
  renewalEnded(isAnswered: boolean, now: number): void {
    this.renewals -= 1
    if (!isAnswered) this.#strayUntil = now + CALL_LIFE_MS
    if (this.#shorter !== undefined && this.renewals === 0 && !this.unanswered && this.#strayUntil <= now)
      this.#shorter.until = now
  }

  #atMost(leaseMs: number, sentAt: number): number {
    if (this.#shorter === undefined || sentAt >= this.#shorter.until) return leaseMs
    return Math.min(leaseMs, this.#shorter.leaseMs)
  }

  /** Until when a hold with the present lease may be believed in. */
  get believedUntil(): number {
    // The grace makes up for its own drift: only what is believed in is shortened by it.
    const believedMs = this.leaseMs - Math.min(this.wish.options.graceMs, this.leaseMs)
    return this.leaseSentAt + believedMs - driftMs(believedMs)
  }

  /** When the ticket is surely gone from the store, left or not. */
  get lapsesAt(): number {
    return Math.max(
      this.#standsUntil,
      this.leaseSentAt + Math.max(this.leaseMs, this.storeTtlMs) + driftMs(this.leaseMs),
    )
  }

  /** Until when the store must be told that the ticket leaves: it may stand, or a join of it may still arrive. */
  get leaveUntil(): number {
    return this.unanswered ? Math.max(this.lapsesAt, this.lastJoinAt + CALL_LIFE_MS) : this.lapsesAt
  }

  /** For how long a release at this moment keeps others out. */
  keepMs(now: number): number {
    return Math.max(0, this.heldSince + this.wish.options.minHoldMs - now)
  }

  joinRequest(wait: boolean, group?: string): JoinRequest {
    const { line, weight, capacity, options } = this.wish
    return {
      line,
      id: this.id,
      weight,
      capacity,
      wait,
      ttlMs: this.storeTtlMs,
      waitTtlMs: this.waitTtlMs,
      holder: this.holder,
      takeover: options.takeover,
      group,
    }
  }

  renewRequest(): RenewRequest {
    return {
      line: this.wish.line,
      id: this.id,
      handle: this.handle,
      ttlMs: this.storeTtlMs,
      waitTtlMs: this.waitTtlMs,
      order: this.order,
    }
  }

  leaveRequest(keepMs: number): LeaveRequest {
    return {
      line: this.wish.line,
      id: this.id,
      handle: this.handle,
      keepMs,
      tombstoneMs: this.unanswered ? CALL_LIFE_MS : 0,
      order: this.order,
    }
  }
}

/** The request that drops a ticket whoever holds it; a join of it that is still under way must not bring it back. */
export function evictRequest(line: LineKey, id: string, order: bigint): LeaveRequest {
  return { line, id, order, keepMs: 0, tombstoneMs: CALL_LIFE_MS }
}
