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

/** An answer takes no longer where there is one; the wait of the caller is over by then. */
const LONGEST_UNDO_MS = 250

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
    const group = await this.#tryAll(wishes, resolved, until)
    if (group !== undefined) return group
    if (waitMs === 0) throw new LockTimeoutError(`${this.#list()} could not be had together at once.`)
    return await this.#oneByOne(wishes, until, waitMs)
  }

  async tryAcquire(options?: AcquireOptions): Promise<GroupLease | undefined> {
    const resolved = resolveOptions(this.#defaults, options)
    resolved.signal?.throwIfAborted()
    return await this.#tryAll(this.#wishes(options), resolved)
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

  /** `until`: for how long the caller is willing to wait; left out by who is not. */
  async #tryAll(
    wishes: readonly { lock: Lock; wish: Wish }[],
    resolved: Resolved,
    until?: number,
  ): Promise<GroupLease | undefined> {
    const wait = until !== undefined && resolved.waitMs > 0
    await this.#client.opens(resolved, wait)
    const held = wishes.map(({ lock, wish }) => lock.reentered(wish, wait))
    if (held.includes('refused')) return undefined
    // Entered before anything is awaited: the outer handle may be released meanwhile.
    const reentered = held.map((hold) => (hold instanceof Hold ? new Lease(hold) : undefined))
    const fresh = wishes.filter((_, i) => reentered[i] === undefined).map(({ wish }) => wish)
    let rest: Lease[] | undefined
    try {
      const over = { signal: resolved.signal, until: wait ? until : Number.POSITIVE_INFINITY, waitMs: resolved.waitMs }
      const taken = fresh.length === 0 ? [] : await this.#unlessOver(this.#takeTogether(fresh, wait), over)
      rest = taken?.map((hold) => new Lease(hold))
    } catch (error) {
      await this.#undo(reentered, resolved.signal)
      throw error
    }
    if (rest === undefined) {
      await this.#undo(reentered, resolved.signal)
      return undefined
    }
    const news = rest.values()
    return new GroupLease(reentered.map((lease) => lease ?? news.next().value!))
  }

  /** An abort or the end of the wait is answered at once; what is taken all the same is given back behind the caller's back. */
  async #unlessOver(
    trying: Promise<Hold[] | undefined>,
    { signal, until, waitMs }: { signal: AbortSignal | undefined; until: number; waitMs: number },
  ): Promise<Hold[] | undefined> {
    if (signal === undefined && until === Number.POSITIVE_INFINITY) return await trying
    const { desk } = this.#client
    const cancels: (() => void)[] = []
    let isOver = false
    const over = new Promise<never>((_, reject) => {
      const end = (reason: unknown): void => {
        isOver = true
        reject(reason)
      }
      if (signal?.aborted) return end(signal.reason)
      if (signal !== undefined) cancels.push(desk.aborts.on(signal, () => end(signal.reason)))
      if (until !== Number.POSITIVE_INFINITY) cancels.push(desk.at(until, () => end(this.#unanswered(waitMs))))
    })
    try {
      const holds = await Promise.race([trying, over])
      signal?.throwIfAborted()
      return holds
    } finally {
      for (const cancel of cancels) cancel()
      if (isOver || signal?.aborted)
        void desk.seeOff(
          trying.then(
            (holds) => undoHolds(holds ?? []),
            () => undefined,
          ),
        )
    }
  }

  /** Gives back what was taken on the way to all. Nobody waits for a silent store, nor who aborted at all; `close` does. */
  async #undo(leases: readonly (Lease | undefined)[], signal: AbortSignal | undefined): Promise<void> {
    const { desk } = this.#client
    const undone = desk.seeOff(undo(leases))
    if (signal?.aborted !== true) await Promise.race([undone, desk.pause(LONGEST_UNDO_MS)])
  }

  // Who may wait goes on one by one where the store was out of reach for a moment: there it is waited for.
  async #takeTogether(wishes: readonly Wish[], wait: boolean): Promise<Hold[] | undefined> {
    try {
      return await this.#takeAtOnce(wishes, wait)
    } catch (error) {
      if (wait && error instanceof BackendError && error.retryable) return undefined
      throw error
    }
  }

  async #takeAtOnce(wishes: readonly Wish[], wait: boolean): Promise<Hold[] | undefined> {
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
      await this.#undo(leases, wishes[0]!.wish.options.signal)
      throw error
    }
  }

  #unanswered(waitMs: number): BackendError {
    const message = `The ${this.#client.desk.backend.name} store did not answer for ${this.#list()} within ${Math.round(waitMs)} ms, so whether they are free is unknown.`
    return new BackendError(message, { retryable: true })
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
