import type { Backend, Guarantees } from './backend.js'
import { Client } from './client.js'
import { type Clock, systemClock } from './clock.js'
import { type Duration, durationMs } from './duration.js'
import { Election } from './election.js'
import { ConfigError } from './errors.js'
import { LockGroup } from './group.js'
import { parseTicket } from './handover.js'
import { CALL_TIMEOUT_MS } from './lanes.js'
import { Lease } from './lease.js'
import { KINDS, type LineKey, RW_CAPACITY } from './line.js'
import { Lock } from './lock.js'
import { checkName } from './name.js'
import { DEFAULTS, type LockOptions, type Resolved, resolveOptions } from './options.js'
import { evictRequest } from './place.js'
import { type LineInfo, type TicketInfo, viewLine } from './view.js'

export interface HoldfastOptions extends LockOptions {
  /** A call to the store without an answer is given up after this; its outcome is unknown. Default 5 s. */
  readonly callTimeout?: Duration
  /** The clock to go by; for tests. */
  readonly clock?: Clock
}

/** The two sides of a read-write lock. */
export interface ReadWriteLock {
  readonly read: Lock
  readonly write: Lock
}

/** The most permits of a semaphore: every store keeps such numbers exactly. */
const MOST_PERMITS = 2 ** 30

/** A client of one store: makes locks, looks at lines, and lets go of everything when closed. */
export class Holdfast implements AsyncDisposable {
  readonly #client: Client
  readonly #defaults: Resolved

  constructor(backend: Backend, options: HoldfastOptions = {}) {
    checkBackend(backend)
    this.#defaults = clientDefaults(options)
    const { callTimeout = CALL_TIMEOUT_MS, clock = systemClock } = options
    this.#client = new Client(backend, clock, durationMs(callTimeout, 'callTimeout'))
  }

  /** What the store promises, as plain data. */
  get guarantees(): Guarantees {
    return this.#client.desk.backend.guarantees
  }

  /** The store's name: 'sqlite', 'redis' … */
  get store(): string {
    return this.#client.desk.backend.name
  }

  /** Opens the store now instead of on first use. */
  async ready(): Promise<void> {
    await this.#client.ready()
  }

  /** A mutex: one holder at a time. */
  lock(name: string, options?: LockOptions): Lock {
    const line: LineKey = { kind: 'mutex', name: checkName(name) }
    return this.#lock(line, 1, (permits) => only(permits, line), options)
  }

  /** A read-write lock: many readers or one writer, in the order in which they came. */
  readWriteLock(name: string, options?: LockOptions): ReadWriteLock {
    const line: LineKey = { kind: 'rw', name: checkName(name) }
    return {
      read: this.#lock(line, RW_CAPACITY, (permits) => only(permits, line), options),
      write: this.#lock(line, RW_CAPACITY, (permits) => only(permits, line) * RW_CAPACITY, options),
    }
  }

  /** A semaphore of n permits; `acquire({ permits: 2 })` takes two. */
  semaphore(name: string, permits: number, options?: LockOptions): Lock {
    if (!Number.isSafeInteger(permits) || permits < 1 || permits > MOST_PERMITS) {
      throw new ConfigError(`A semaphore has 1 to ${MOST_PERMITS} permits, not ${String(permits)}.`)
    }
    return this.#lock({ kind: 'semaphore', name: checkName(name) }, permits, (asked) => asked, options)
  }

  /** Several locks as one: held in all, or standing in none. A name stands for its mutex. */
  all(locks: readonly (string | Lock)[], options?: LockOptions): LockGroup {
    if (!Array.isArray(locks)) throw new ConfigError("all takes a list: all(['a', 'b']).")
    const list = locks.map((one: string | Lock) => (typeof one === 'string' ? this.lock(one) : one))
    return new LockGroup(this.#client, list, this.#defaults, options)
  }

  /** A leader election: the mutex of that name, held for as long as one leads. */
  election(name: string, options?: LockOptions): Election {
    return new Election(this.#client, this.lock(name, options))
  }

  /** The lines of that name: who holds, who waits, since when, until when. */
  async view(name: string): Promise<LineInfo[]> {
    checkName(name)
    await this.#client.ready()
    const views = await this.#client.ask((backend) => backend.view(name))
    return views.map(viewLine)
  }

  /** Every line whose name starts so. */
  async *lines(prefix = ''): AsyncIterable<LineInfo> {
    if (typeof prefix !== 'string') throw new ConfigError(`lines: a prefix is a string, not ${typeof prefix}.`)
    await this.#client.ready()
    const names = this.#client.desk.backend.names(prefix)[Symbol.asyncIterator]()
    let stuck = true
    try {
      for (;;) {
        // Each step is a question of its own: bounded, and the process stays alive until it is answered.
        const { done, value } = await this.#client.ask(() => names.next())
        stuck = done === true
        if (done === true) return
        yield* await this.view(value)
        stuck = true
      }
    } finally {
      // A generator that is stuck in a step ends only after it, so nobody can wait for that.
      if (!stuck) await names.return?.()
    }
  }

  /** Breaks a stuck holder, or takes a waiter out of line; its signal aborts. False when it was gone already. */
  async evict(ticket: Pick<TicketInfo, 'kind' | 'name' | 'id' | 'fence'>): Promise<boolean> {
    const { kind, name, id, fence } = checkTicket(ticket)
    await this.#client.ready()
    const [gone] = await this.#client.ask((backend) => backend.leave([evictRequest({ kind, name }, id, fence)]))
    if (typeof gone === 'boolean') return gone
    throw gone ?? new TypeError('no answer')
  }

  /** Goes on with a hold that another process let go of by `lease.serialize()`. */
  async adopt(text: string): Promise<Lease> {
    return new Lease(await this.#client.adopt(parseTicket(text)))
  }

  /** Stops new work, lets go of what is held, settles every waiter, and closes the store's connections. */
  close(): Promise<void> {
    return this.#client.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #lock(line: LineKey, capacity: number, weight: (permits: number) => number, options: LockOptions | undefined): Lock {
    this.#client.checkKind(line.kind)
    return new Lock(this.#client, { line, capacity, weight }, resolveOptions(this.#defaults, options))
  }
}

/** The defaults of a client with these options; throws ConfigError for what is wrong with them. */
export function clientDefaults(options: HoldfastOptions): Resolved {
  const defaults = resolveOptions(DEFAULTS, options, ['callTimeout', 'clock'])
  if (options.callTimeout !== undefined && durationMs(options.callTimeout, 'callTimeout') < 1) {
    throw new ConfigError('callTimeout: no store answers in no time. Use 1 ms or more; the default is 5 s.')
  }
  return defaults
}

function checkBackend(backend: unknown): void {
  const port: Partial<Record<keyof Backend, unknown>> = typeof backend === 'object' && backend !== null ? backend : {}
  if (typeof port.guarantees === 'object' && typeof port.join === 'function' && typeof port.open === 'function') return
  throw new ConfigError(
    "new Holdfast takes a backend, such as redis(client) of 'holdfast/redis'. For a URL: await connect(url).",
  )
}

function checkTicket(ticket: Pick<TicketInfo, 'kind' | 'name' | 'id' | 'fence'>): typeof ticket {
  const { kind, name, id, fence }: Partial<typeof ticket> = ticket ?? {}
  if (kind === undefined || !KINDS.includes(kind) || typeof id !== 'string' || id === '' || typeof fence !== 'bigint') {
    throw new ConfigError('evict takes a ticket of view(name) or lines(): (await locks.view(name))[0].tickets[0].')
  }
  return { kind, name: checkName(name), id, fence }
}

function only(permits: number, line: LineKey): number {
  if (permits !== 1) throw new ConfigError(`'${line.name}' is not a semaphore: it has no permits to choose from.`)
  return permits
}
