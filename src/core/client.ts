import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { adopt } from './adoption.js'
import { Attempt } from './attempt.js'
import type { Backend, Holder } from './backend.js'
import type { Clock } from './clock.js'
import { Desk, pending } from './desk.js'
import { asBackendError, BackendError, ClosedError, LockLostError, UnsupportedError } from './errors.js'
import { checkLease, checkRequired } from './guarantees.js'
import { Hold } from './hold.js'
import type { HandedOver } from './handover.js'

import type { Kind } from './line.js'
import { DEFAULTS, type Resolved } from './options.js'
import { Place, type Wish } from './place.js'

/** What every primitive needs of one client: an open backend, checks, and tickets taken and given back. */
export class Client {
  readonly desk: Desk
  readonly id: string = randomUUID()
  /** Who holds, unless more is said of it. */
  readonly #self: Holder = { owner: this.id, client: this.id, host: hostname(), pid: process.pid }
  #opening: Promise<void> | undefined
  #opened = false
  #closing: Promise<void> | undefined

  constructor(backend: Backend, clock: Clock, callTimeoutMs: number) {
    this.desk = new Desk(backend, clock, callTimeoutMs)
  }

  /** Opens the backend on first use. An open that failed is tried again by the next call. */
  ready(): Promise<void> {
    this.assertOpen()
    this.#opening ??= this.#open()
    return this.#opening
  }

  assertOpen(): void {
    if (this.#closing !== undefined) throw new ClosedError('This client is closed. Make a new one.')
  }

  /** Throws when the store cannot do what is asked, before anything is taken. */
  check(options: Resolved): void {
    this.assertOpen()
    const { name, guarantees } = this.desk.backend
    checkRequired(name, guarantees, options.require)
    checkLease(name, guarantees, options)
  }

  checkKind(kind: Kind): void {
    const { name, guarantees } = this.desk.backend
    if (guarantees.kinds.includes(kind)) return
    throw new UnsupportedError(
      `The ${name} store has no ${kind === 'rw' ? 'read-write lock' : kind}. ${guarantees.sentence}`,
    )
  }

  newPlace(wish: Wish): Place {
    return new Place(wish, this.#holder(wish.options), this.desk.backend.guarantees.minTtlMs, this.desk.clock.now())
  }

  /** Takes a ticket; undefined when refused. */
  take(wish: Wish, wait: boolean): Promise<Hold | undefined> {
    // Also between two lines of a group: what joins after `close` has looked is ended by nobody.
    this.assertOpen()
    return this.#opened ? Attempt.run(this, wish, wait) : this.#openAndTake(wish, wait)
  }

  async #openAndTake(wish: Wish, wait: boolean): Promise<Hold | undefined> {
    const { waitMs } = wish.options
    const until = this.desk.clock.now() + waitMs
    await this.opens(wish.options, wait)
    // What the store promises may only be known once it is open; and the signal may have aborted meanwhile.
    this.check(wish.options)
    wish.options.signal?.throwIfAborted()
    const options = { ...wish.options, waitMs: Math.max(0, until - this.desk.clock.now()) }
    return await Attempt.run(this, { ...wish, options }, wait)
  }

  /** Opens the store, but waits no longer for it than the caller does for a lock. */
  async opens({ signal, waitMs }: Resolved, wait: boolean): Promise<void> {
    const { desk } = this
    if (this.#opened) return this.assertOpen()
    const cleanups: (() => void)[] = []
    const ended = new Promise<never>((_, reject) => {
      const waiter = pending(() => reject(new ClosedError('The client was closed before the store was open.')))
      desk.pending.add(waiter)
      cleanups.push(() => desk.pending.delete(waiter))
      if (signal !== undefined) cleanups.push(desk.aborts.on(signal, () => reject(signal.reason)))
      if (!wait || waitMs === Number.POSITIVE_INFINITY) return
      const message = `The ${desk.backend.name} store was not open within ${Math.round(waitMs)} ms, so what is free is unknown.`
      const timeOut = (): void => reject(new BackendError(message, { retryable: true }))
      cleanups.push(desk.at(desk.clock.now() + waitMs, timeOut))
    })
    try {
      await Promise.race([this.ready(), ended])
    } finally {
      for (const cleanup of cleanups) cleanup()
    }
  }

  /** Goes on with a ticket that another process let go of, under a new secret handle. */
  async adopt(ticket: HandedOver): Promise<Hold> {
    await this.ready()
    if (!this.desk.backend.guarantees.handover) {
      throw new UnsupportedError(
        `The ${this.desk.backend.name} store cannot hand over a hold: it belongs to the session.`,
      )
    }
    const { line, weight, capacity, ttlMs, graceMs, renew, minHoldMs, maxHoldMs, owner, note } = ticket
    const options: Resolved = { ...DEFAULTS, ttlMs, graceMs, renew, minHoldMs, maxHoldMs, owner, note }
    const holder = this.#holder(options)
    const place = new Place({ line, weight, capacity, options }, holder, 0, this.desk.clock.now(), ticket.id)
    place.order = ticket.order
    place.handle = randomUUID()
    const swap = { ...place.renewRequest(), handle: ticket.handle, nextHandle: place.handle, nextHolder: holder }
    const granted = await this.desk.seeOff(adopt(this.desk, place, swap))
    this.assertOpen()
    if (!granted)
      throw new LockLostError(`'${line.name}' cannot be adopted: it was released, lost, or adopted by another.`)
    return new Hold(this.desk, place)
  }

  /** A question to the store that changes no ticket of ours, bounded like every call. */
  async ask<T>(call: (backend: Backend) => Promise<T>): Promise<T> {
    const { desk } = this
    const { name } = desk.backend
    desk.alive.begin()
    let cancel: (() => void) | undefined
    // No timer outlives `close`: what is still asked then is answered by it.
    const question = pending(() => undefined)
    desk.pending.add(question)
    try {
      const late = new Promise<never>((_, reject) => {
        question.end = () => reject(new ClosedError('The client was closed before the store answered.'))
        cancel = desk.at(desk.clock.now() + desk.callTimeoutMs, () =>
          reject(
            new BackendError(`The ${name} store did not answer within ${desk.callTimeoutMs} ms.`, { retryable: true }),
          ),
        )
      })
      return await Promise.race([call(desk.backend), late])
    } catch (error) {
      throw asBackendError(name, error)
    } finally {
      cancel?.()
      desk.pending.delete(question)
      desk.alive.end()
    }
  }

  /** Stops new work, settles every waiter, lets go of what is held, and closes the backend. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  #holder({ owner, note, also }: Resolved): Holder {
    if (owner === undefined && note === undefined && also === undefined) return this.#self
    return {
      ...this.#self,
      ...(owner === undefined ? undefined : { owner }),
      ...(note === undefined ? undefined : { note }),
      ...(also === undefined ? undefined : { also }),
    }
  }

  async #open(): Promise<void> {
    this.desk.alive.begin()
    try {
      await this.desk.backend.open(this.desk.events)
      this.#opened = true
    } catch (error) {
      this.#opening = undefined
      throw asBackendError(this.desk.backend.name, error)
    } finally {
      this.desk.alive.end()
    }
  }

  async #close(): Promise<void> {
    const { desk } = this
    // A process whose last act is to await this would end in the middle of it: nothing of a backend keeps it alive.
    desk.alive.begin()
    desk.closing = true
    desk.closingUntil = desk.clock.now() + desk.callTimeoutMs
    for (const attempt of desk.pending) attempt.end()
    for (const place of desk.places) desk.letGo(place)
    try {
      const opening = this.#opening?.catch(() => undefined)
      // An open that hangs must not make this hang; should it succeed after all, it is closed then.
      if (opening !== undefined && !this.#opened) await Promise.race([opening, desk.pause(desk.callTimeoutMs)])
      await desk.close()
      if (this.#opened) await desk.backend.close()
      else void opening?.then(() => (this.#opened ? desk.backend.close().catch(() => undefined) : undefined))
    } finally {
      desk.alive.close()
    }
  }
}
