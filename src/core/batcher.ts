import type { Clock, Timer } from './clock.js'
import { asBackendError, BackendError, ClosedError } from './errors.js'

/** What came back for one item, and when the call that carried it was sent. */
export interface Answer<Out> {
  readonly result: Out
  readonly sentAt: number
}

export interface BatcherOptions<In, Out> {
  readonly clock: Clock
  /** Makes one call for all items and answers for each, in order. */
  send(items: readonly In[]): Promise<readonly Out[]>
  /** The most items in one call. */
  readonly maxBatch: () => number
  /** So many items are worth a call although another is under way; left out: one call at a time. */
  readonly worthPipelining?: number | undefined
  /** A call without an answer is given up as unknown after this. */
  readonly timeoutMs: number
  /** For messages: 'redis'. */
  readonly store: string
}

/** A call this old no longer holds up what arrived after it: one stalled name must not stall the rest. */
const STALL_MS = 50
/** Beyond this many calls under way the store is not slow but gone, and more calls would not help. */
const MOST_UNDER_WAY = 8

/** A microtask by way of a settled promise costs a fraction of `queueMicrotask`. */
const SETTLED = Promise.resolve()

/** Who is told what became of an item: the hot path needs no promise of its own. */
export interface Receiver<Out> {
  answered(result: Out, sentAt: number): void
  failed(error: unknown): void
}

/** Items that must travel in one call, and who is told of each. */
interface Parcel<In, Out> {
  readonly items: readonly In[]
  readonly receivers: readonly Receiver<Out>[]
}

interface Call<In, Out> {
  readonly sentAt: number
  readonly parcels: readonly Parcel<In, Out>[]
  givenUp: boolean
}

/**
 * Sends at once when nothing is under way and gathers what arrives while a call is.
 * So one caller pays one round trip, and a thousand callers pay a handful between them.
 */
export class Batcher<In, Out> {
  readonly #options: BatcherOptions<In, Out>
  #queue: Parcel<In, Out>[] = []
  /** A few at most, the oldest first. */
  readonly #underWay: Call<In, Out>[] = []
  #flushing = false
  #closed = false
  #patrol: Timer | undefined

  constructor(options: BatcherOptions<In, Out>) {
    this.#options = options
  }

  /** Sends an item with the next call; the receiver is told. */
  send(item: In, receiver: Receiver<Out>): void {
    this.#queue.push({ items: [item], receivers: [receiver] })
    this.#flushSoon()
  }

  push(item: In): Promise<Answer<Out>> {
    return new Promise((resolve, reject) => {
      this.send(item, { answered: (result, sentAt) => resolve({ result, sentAt }), failed: reject })
    })
  }

  /** Items that are sent in one call, whatever else the call carries. */
  pushTogether(items: readonly In[]): Promise<Answer<Out>[]> {
    const receivers: Receiver<Out>[] = []
    const answers = items.map(
      () =>
        new Promise<Answer<Out>>((resolve, reject) => {
          receivers.push({ answered: (result, sentAt) => resolve({ result, sentAt }), failed: reject })
        }),
    )
    this.#queue.push({ items, receivers })
    this.#flushSoon()
    return Promise.all(answers)
  }

  /** Ends: what is under way or comes later has no answer any more, and nobody is left waiting for one. */
  close(): void {
    this.#closed = true
    this.#patrol?.cancel()
    this.#patrol = undefined
    for (const call of this.#underWay.splice(0)) {
      call.givenUp = true
      fail(call.parcels, closed())
    }
    fail(this.#queue.splice(0), closed())
  }

  // In a microtask: what one turn of the event loop asks for goes out as one call.
  #flushSoon(): void {
    if (this.#flushing) return
    this.#flushing = true
    void SETTLED.then(this.#flushNow)
  }

  readonly #flushNow = (): void => {
    this.#flushing = false
    this.#flush()
  }

  #flush(): void {
    if (this.#closed) return fail(this.#queue.splice(0), closed())
    if (this.#queue.length === 0) return
    const now = this.#options.clock.now()
    if (this.#underWay.length >= MOST_UNDER_WAY) return
    const { worthPipelining = Number.POSITIVE_INFINITY } = this.#options
    if (this.#queue.length < worthPipelining) {
      for (const call of this.#underWay) {
        if (now - call.sentAt < STALL_MS) return this.#patrolAt(call.sentAt + STALL_MS, now)
      }
    }
    this.#send(this.#take(worthPipelining), now)
    if (this.#queue.length > 0) this.#flush()
  }

  // Where calls are pipelined, half of what is there: while the store works on it, this side makes the next.
  #take(worthPipelining: number): Parcel<In, Out>[] {
    if (this.#queue.length === 1) {
      const only = this.#queue
      this.#queue = []
      return only
    }
    const most = Math.min(this.#options.maxBatch(), Math.max(worthPipelining, this.#queue.length >> 1))
    let count = 0
    let parcels = 0
    for (const parcel of this.#queue) {
      if (parcels > 0 && count + parcel.items.length > most) break
      count += parcel.items.length
      parcels += 1
    }
    return this.#queue.splice(0, parcels)
  }

  #send(parcels: readonly Parcel<In, Out>[], now: number): void {
    const call: Call<In, Out> = { sentAt: now, parcels, givenUp: false }
    this.#underWay.push(call)
    const items = parcels.length === 1 ? parcels[0]!.items : parcels.flatMap((parcel) => parcel.items)
    try {
      this.#options.send(items).then(
        (results) => this.#answered(call, items.length, results),
        (error: unknown) => this.#failed(call, error),
      )
    } catch (error) {
      this.#failed(call, error)
    }
    this.#patrolAt(now + this.#options.timeoutMs, now)
  }

  #answered(call: Call<In, Out>, count: number, results: readonly Out[]): void {
    if (results.length !== count) {
      const message = `The ${this.#options.store} backend answered ${results.length} of ${count} items.`
      return this.#failed(call, new BackendError(message, { retryable: false }))
    }
    if (!this.#finish(call)) return
    let next = 0
    for (const { receivers } of call.parcels) {
      for (const receiver of receivers) receiver.answered(results[next++]!, call.sentAt)
    }
  }

  // Whatever a backend throws is an unknown outcome with the store's name on it, never a "no".
  #failed(call: Call<In, Out>, thrown: unknown): void {
    if (!this.#finish(call)) return
    const error = asBackendError(this.#options.store, thrown)
    const poisoned = !(error instanceof BackendError && error.retryable)
    if (poisoned && call.parcels.length > 1) {
      // One item may have spoilt it for all: ask in halves, until the bad one stands alone.
      const half = call.parcels.length >> 1
      const now = this.#options.clock.now()
      this.#send(call.parcels.slice(0, half), now)
      this.#send(call.parcels.slice(half), now)
      return
    }
    fail(call.parcels, error)
  }

  /** True when this call's answer still matters. */
  #finish(call: Call<In, Out>): boolean {
    if (call.givenUp) return false
    this.#ended(call)
    if (this.#queue.length > 0) this.#flushSoon()
    return true
  }

  #ended(call: Call<In, Out>): void {
    if (this.#underWay.at(-1) === call) this.#underWay.pop()
    else this.#underWay.splice(this.#underWay.indexOf(call), 1)
  }

  // One timer for all calls, left to fire when it is no longer needed: cheaper than one a call.
  #patrolDue = 0
  #patrolAt(due: number, now: number): void {
    if (this.#patrol !== undefined && this.#patrolDue <= due) return
    this.#patrol?.cancel()
    this.#patrolDue = due
    this.#patrol = this.#options.clock.after(due - now, () => this.#onPatrol(), false)
  }

  #onPatrol(): void {
    this.#patrol = undefined
    const now = this.#options.clock.now()
    for (const call of [...this.#underWay]) {
      if (now - call.sentAt < this.#options.timeoutMs) continue
      call.givenUp = true
      this.#ended(call)
      const error = new BackendError(
        `The ${this.#options.store} store did not answer within ${this.#options.timeoutMs} ms.`,
        {
          retryable: true,
        },
      )
      fail(call.parcels, error)
    }
    this.#flush()
    const [oldest] = this.#underWay
    if (oldest !== undefined) this.#patrolAt(oldest.sentAt + this.#options.timeoutMs, now)
  }
}

function closed(): ClosedError {
  return new ClosedError('The client was closed before the store answered.')
}

function fail<In, Out>(parcels: readonly Parcel<In, Out>[], error: unknown): void {
  for (const { receivers } of parcels) for (const receiver of receivers) receiver.failed(error)
}
