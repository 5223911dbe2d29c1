import { randomUUID } from 'node:crypto'
import type { Client } from './client.js'
import { runInside } from './context.js'
import { BackendError, ConfigError, LockLostError, LockTimeoutError } from './errors.js'
import { GroupLease } from './group-lease.js'
import { Hold } from './hold.js'
import { Lease } from './lease.js'
import { byLine, lineText } from './line.js'
import { Lock } from './lock.js'
import { type AcquireOptions, checkFunction, type LockOptions, type Resolved, resolveOptions } from './options.js'
import type { Wish } from './place.js'
import { joinTogether } from './together.js'

/**
 * Several locks as one: held in all, or standing in none.
 *
 * It tries every line in one step. When that is refused and the caller is willing to wait, it takes
 * them one by one in sorted order of (kind, name). Joining all lines at once and waiting in them would
 * not be safe: we stand behind H in line b and before it in line a; H holds b, asks for a in sorted
 * order, and each waits for the other.
 */
export class LockGroup {
  readonly #client: Client
  readonly #locks: readonly Lock[]
  readonly #defaults: Resolved
  readonly #options: LockOptions | undefined

  /** @internal */
  constructor(client: Client, locks: readonly Lock[], defaults: Resolved, options: LockOptions | undefined) {
    if (locks.length === 0) throw new ConfigError('all([]) has nothing to lock. Name at least one.')
    for (const lock of locks) {
      if (!(lock instanceof Lock))
        throw new ConfigError('all([...]) takes names and locks, such as readWriteLock(name).read.')
      if (!lock.isOf(client)) throw new ConfigError(`all([...]): '${lock.name}' is a lock of another client.`)
    }
    this.#client = client
    this.#locks = locks
    this.#defaults = resolveOptions(defaults, options)
    this.#options = options
  }

  /** Waits until all are held. `wait` bounds the whole of it. */
  async acquire(options?: AcquireOptions): Promise<GroupLease> {
    const resolved = resolveOptions(this.#defaults, options)
    const { waitMs, signal } = resolved
    const until = this.#client.desk.clock.now() + waitMs
    signal?.throwIfAborted()
    const wishes = this.#wishes(options)
    await this.#client.opens(resolved, waitMs > 0)
    const group = await this.#firstTry(wishes, resolved, until)
    if (group !== undefined) return group
    if (waitMs === 0) throw new LockTimeoutError(`${this.#list()} could not be had together at once.`)
    return await this.#oneByOne(wishes, until, waitMs)
  }

  async tryAcquire(options?: AcquireOptions): Promise<GroupLease | undefined> {
    const resolved = resolveOptions(this.#defaults, options)
    resolved.signal?.throwIfAborted()
    const wishes = this.#wishes(options)
    await this.#client.opens(resolved, false)
    return await this.#tryAll(wishes, resolved)
  }

  async use<T>(fn: (lease: GroupLease) => T | PromiseLike<T>, options?: AcquireOptions): Promise<Awaited<T>> {
    checkFunction(fn, 'use')
    const group = await this.acquire(options)
    try {
      const result = await runInside(
        group.leases.map((lease) => Lease.holdOf(lease)),
        () => fn(group),
      )
      const { onLost } = resolveOptions(this.#defaults, options)
      if (onLost === 'throw' && group.state === 'lost') group.assertHeld()
      return result
    } finally {
      await group[Symbol.asyncDispose]()
    }
  }

  /** One wish a line, the stronger mode winning, in the order in which they may be taken. */
  #wishes(options: AcquireOptions | undefined): { lock: Lock; wish: Wish }[] {
    const byText = new Map<string, { lock: Lock; wish: Wish }>()
    for (const lock of this.#locks) {
      const wish = lock.wish(options, this.#options)
      const text = lineText(wish.line)
      const known = byText.get(text)
      if (known === undefined || known.wish.weight < wish.weight) byText.set(text, { lock, wish })
    }
    return [...byText.values()].sort((a, b) => byLine(a.wish.line, b.wish.line))
  }

  /** A store that fails for a moment is no end for who waits: it goes on one by one, which asks again. */
  async #firstTry(
    wishes: readonly { lock: Lock; wish: Wish }[],
    resolved: Resolved,
    until: number,
  ): Promise<GroupLease | undefined> {
    if (resolved.waitMs === 0) return await this.#tryAll(wishes, resolved)
    try {
      return await this.#tryAll(wishes, resolved, until)
    } catch (error) {
      const isPassing = error instanceof BackendError && error.retryable
      if (!isPassing || this.#isOver(resolved.signal, until)) throw error
      return undefined
    }
  }

  /** `until`: of one who waits. */
  async #tryAll(
    wishes: readonly { lock: Lock; wish: Wish }[],
    { signal }: Resolved,
    until?: number,
  ): Promise<GroupLease | undefined> {
    const wait = until !== undefined
    const held = wishes.map(({ lock, wish }) => lock.reentered(wish, wait))
    if (held.includes('refused')) return undefined
    // Entered before anything is awaited: the outer handle may be released meanwhile.
    const reentered = held.map((hold) => (hold instanceof Hold ? new Lease(hold) : undefined))
    const fresh = wishes.filter((_, i) => reentered[i] === undefined).map(({ wish }) => wish)
    let rest: Lease[] | undefined
    try {
      const taken = fresh.length === 0 ? [] : await this.#unlessOver(this.#takeTogether(fresh, wait), signal, until)
      rest = taken?.map((hold) => new Lease(hold))
    } catch (error) {
      await this.#undo(reentered, signal, until)
      throw error
    }
    if (rest === undefined) {
      await this.#undo(reentered, signal, until)
      return undefined
    }
    const news = rest.values()
    return new GroupLease(reentered.map((lease) => lease ?? news.next().value!))
  }

  /** An abort, or the end of the wait, is told at once; what the try takes all the same is given back behind the caller's back. */
  async #unlessOver(
    trying: Promise<Hold[] | undefined>,
    signal: AbortSignal | undefined,
    until: number = Number.POSITIVE_INFINITY,
  ): Promise<Hold[] | undefined> {
    const { desk } = this.#client
    const cleanups: (() => void)[] = []
    const over = new Promise<never>((_, reject) => {
      if (signal?.aborted) reject(signal.reason)
      else if (signal !== undefined) cleanups.push(desk.aborts.on(signal, () => reject(signal.reason)))
      if (until !== Number.POSITIVE_INFINITY) cleanups.push(desk.at(until, () => reject(this.#unanswered())))
    })
    try {
      const holds = await Promise.race([trying, over])
      signal?.throwIfAborted()
      return holds
    } catch (error) {
      if (this.#isOver(signal, until))
        void desk.seeOff(
          trying.then(
            (holds) => undoHolds(holds ?? []),
            () => undefined,
          ),
        )
      throw error
    } finally {
      for (const cleanup of cleanups) cleanup()
    }
  }

  /** Gives back what was taken on the way to all. Who aborted or waited too long does not wait for it; `close` does. */
  async #undo(leases: readonly (Lease | undefined)[], signal: AbortSignal | undefined, until?: number): Promise<void> {
    const undone = this.#client.desk.seeOff(undo(leases))
    if (!this.#isOver(signal, until)) await undone
  }

  #isOver(signal: AbortSignal | undefined, until: number = Number.POSITIVE_INFINITY): boolean {
    return signal?.aborted === true || this.#client.desk.clock.now() >= until
  }

  #unanswered(): BackendError {
    const message = `The ${this.#client.desk.backend.name} store did not answer in time for ${this.#list()}, so whether they are free is unknown.`
    return new BackendError(message, { retryable: true })
  }

  async #takeTogether(wishes: readonly Wish[], wait: boolean): Promise<Hold[] | undefined> {
    const { desk } = this.#client
    const { guarantees, maxBatch } = desk.backend
    if (wishes.length === 1 || !guarantees.atomicGroup || wishes.length > maxBatch)
      return await this.#takeWithUndo(wishes)
    const places = wishes.map((wish) => this.#client.newPlace(wish))
    desk.alive.begin()
    try {
      const outcome = await desk.seeOff(joinTogether(desk, places, randomUUID()))
      if (outcome === 'held') return places.map((place) => new Hold(desk, place))
      // Too late is not "somebody else holds it": who may wait goes on, who may not learns that it is unknown.
      if (outcome === 'refused' || wait) return undefined
      throw new BackendError(`The ${desk.backend.name} store answered too late for ${this.#list()}.`, {
        retryable: true,
      })
    } finally {
      desk.alive.end()
    }
  }

  async #takeWithUndo(wishes: readonly Wish[]): Promise<Hold[] | undefined> {
    const holds: Hold[] = []
    try {
      for (const wish of wishes) {
        const hold = await this.#client.take(wish, false)
        if (hold === undefined) {
          await undoHolds(holds)
          return undefined
        }
        holds.push(hold)
      }
    } catch (error) {
      await undoHolds(holds)
      throw error
    }
    return holds
  }

  async #oneByOne(wishes: readonly { lock: Lock; wish: Wish }[], until: number, waitMs: number): Promise<GroupLease> {
    const { clock } = this.#client.desk
    const leases: Lease[] = []
    try {
      for (const { lock, wish } of wishes) {
        const left = Math.max(0, until - clock.now())
        const reentered = lock.reentered(wish, true)
        const options = { ...wish.options, waitMs: left }
        const hold = reentered instanceof Hold ? reentered : await this.#client.take({ ...wish, options }, left > 0)
        if (hold === undefined) {
          throw new LockTimeoutError(
            `${this.#list()} could not be had together within ${Math.round(waitMs)} ms: '${wish.line.name}' is held.`,
          )
        }
        leases.push(new Lease(hold))
      }
      const group = new GroupLease(leases)
      if (group.state === 'lost')
        throw new LockLostError(`${this.#list()}: one of them was lost while waiting for the rest.`)
      return group
    } catch (error) {
      await this.#undo(leases, wishes[0]!.wish.options.signal, until)
      throw error
    }
  }

  #list(): string {
    return this.#locks.map((lock) => `'${lock.name}'`).join(', ')
  }
}

/** Gives back what was taken on the way to all; what cannot be told lapses by itself. */
async function undoHolds(holds: readonly Hold[]): Promise<void> {
  await Promise.allSettled(holds.map((hold) => hold.undo()))
}

async function undo(leases: readonly (Lease | undefined)[]): Promise<void> {
  await Promise.allSettled(leases.filter((lease) => lease !== undefined).map((lease) => Lease.undo(lease)))
}
