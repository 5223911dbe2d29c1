import { heldHere, runInside } from './context.js'
import { ConfigError, DeadlockError, LockError, LockLostError, LockTimeoutError } from './errors.js'
import type { Client } from './client.js'
import type { Desk } from './desk.js'
import { Hold } from './hold.js'
import { Lease } from './lease.js'
import { isSameLine, type LineKey } from './line.js'
import {
  type AcquireOptions,
  checkFunction,
  type LockOptions,
  type Resolved,
  resolveOptions,
  type TryOptions,
} from './options.js'
import type { Wish } from './place.js'

/** How a kind of lock turns permits into weight and capacity. */
export interface Share {
  readonly line: LineKey
  readonly capacity: number
  weight(permits: number): number
}

/** One lock: a mutex, a side of a read-write lock, or a semaphore. The same three calls for each. */
export class Lock {
  readonly name: string
  readonly #client: Client
  readonly #share: Share
  readonly #defaults: Resolved

  /** @internal */
  constructor(client: Client, share: Share, defaults: Resolved) {
    this.#client = client
    this.#share = share
    this.#defaults = defaults
    this.name = share.line.name
  }

  /** Waits in line until held. Throws LockTimeoutError after `wait`, or the signal's reason. */
  async acquire(options?: AcquireOptions): Promise<Lease> {
    const wish = this.wish(options)
    wish.options.signal?.throwIfAborted()
    const reentered = this.reentered(wish, true)
    // Entered before anything is awaited: the outer handle may be released meanwhile.
    const hold = reentered instanceof Hold ? reentered : await this.#client.take(wish, wish.options.waitMs > 0)
    if (hold !== undefined) return new Lease(hold)
    throw new LockTimeoutError(
      `'${this.name}' is held by another. See by whom with view('${this.name}'), or wait for it.`,
    )
  }

  /** Takes it if that is possible at once; undefined when it is not. Never waits. */
  async tryAcquire(options?: TryOptions): Promise<Lease | undefined> {
    const wish = this.wish(options)
    wish.options.signal?.throwIfAborted()
    const hold = this.reentered(wish, false) ?? (await this.#client.take(wish, false))
    return hold === undefined || hold === 'refused' ? undefined : new Lease(hold)
  }

  /** Acquires, runs the function, releases. The function's own result or error is what comes out. */
  async use<T>(fn: (lease: Lease) => T | PromiseLike<T>, options?: AcquireOptions): Promise<Awaited<T>> {
    checkFunction(fn, 'use')
    const lease = await this.acquire(options)
    const hold = Lease.holdOf(lease)
    try {
      const result = await runInside([hold], () => fn(lease))
      if (this.#onLost(options) === 'throw' && lease.state === 'lost') lease.assertHeld()
      return result
    } finally {
      await lease[Symbol.asyncDispose]()
    }
  }

  /** @internal Whether it was made by that client: a lock of another one may be in another store. */
  isOf(client: Client): boolean {
    return this.#client === client
  }

  /** @internal What a call with these options asks of the line; a group's own come between the lock's and the call's. */
  wish(options?: AcquireOptions, ofGroup?: LockOptions): Wish {
    const resolved = resolveOptions(resolveOptions(this.#defaults, ofGroup), options)
    const { line, capacity } = this.#share
    const weight = this.#share.weight(resolved.permits)
    if (weight > capacity) {
      throw new ConfigError(`'${line.name}' has ${capacity} permits; ${weight} can never be granted.`)
    }
    this.#client.check(resolved)
    if (line.kind === 'semaphore' && resolved.reentrant) {
      throw new ConfigError(
        'A semaphore is not reentrant: a second acquire takes more permits. Ask for all permits at once.',
      )
    }
    return { line, weight, capacity, options: resolved }
  }

  /**
   * @internal The hold that this wish re-enters: by `within`, or because this very context is inside it.
   * 'refused' when it would have to wait for itself and may not wait.
   */
  reentered(wish: Wish, wait: boolean): Hold | 'refused' | undefined {
    const { within, reentrant } = wish.options
    if (within !== undefined) return checkWithin(within, wish, this.#client.desk)
    const hold = heldHere(this.#client.desk, wish.line)
    if (hold === undefined || wish.line.kind === 'semaphore') return undefined
    if (reentrant && hold.place.wish.weight >= wish.weight) return checkAlive(hold)
    if (!wait) return 'refused'
    const why =
      hold.place.wish.weight < wish.weight
        ? 'a read cannot be turned into a write: release it first, or take the write to begin with'
        : "pass { reentrant: true } to take it again inside its own 'use'"
    throw new DeadlockError(`'${wish.line.name}' is held by this very call chain, which would wait for itself: ${why}.`)
  }

  #onLost(options: AcquireOptions | undefined): 'signal' | 'throw' {
    return options?.onLost ?? this.#defaults.onLost
  }
}

function checkWithin(lease: Lease, wish: Wish, desk: Desk): Hold {
  if (!(lease instanceof Lease)) throw new ConfigError('within is a lease of the same lock.')
  const hold = Lease.holdOf(lease)
  const { line, weight } = hold.place.wish
  if (!isSameLine(line, wish.line)) {
    throw new ConfigError(
      `within: that lease is of '${line.name}' (${line.kind}), not of '${wish.line.name}' (${wish.line.kind}).`,
    )
  }
  if (hold.desk !== desk) {
    throw new ConfigError(`within: that lease of '${line.name}' was taken by another client, perhaps on another store.`)
  }
  if (weight < wish.weight) throw new DeadlockError(`within: '${line.name}' is held for less than is asked for now.`)
  if (lease.state === 'released') throw new LockLostError(`within: '${line.name}' was released.`)
  return checkAlive(hold)
}

function checkAlive(hold: Hold): Hold {
  const state = hold.state()
  if (state !== 'lost' && state !== 'released') return hold
  const because = hold.place.lostBecause
  if (because instanceof LockError) throw because
  throw new LockLostError(`'${hold.place.wish.line.name}' is lost.`)
}
