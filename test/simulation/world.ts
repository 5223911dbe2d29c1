import assert from 'node:assert/strict'
import { MemoryStore, memory } from '../../src/backends/memory/index.js'
import { BackendError, ClosedError, LockLostError, LockTimeoutError } from '../../src/core/errors.js'
import { Holdfast } from '../../src/core/holdfast.js'
import type { Lease } from '../../src/core/lease.js'
import { RW_CAPACITY } from '../../src/core/line.js'
import type { Lock } from '../../src/core/lock.js'
import { FAIR, faultyBackend, type Outage, type Weather } from './faulty-store.js'
import { Random } from './random.js'
import { type Actor, clockOf, VirtualTime } from './virtual-clock.js'

/** What somebody in the simulated world wants. */
export interface Task {
  readonly client: number
  readonly line: 'mutex' | 'other mutex' | 'read' | 'write' | 'one permit' | 'two permits' | 'both mutexes'
  readonly startMs: number
  readonly holdMs: number
  /** Left out: for ever. */
  readonly waitMs: number | undefined
  readonly abortMs: number | undefined
  readonly tryOnly: boolean
}

/** What goes wrong, and when. */
export interface Fault {
  readonly kind: 'pause' | 'crash' | 'stall' | 'close'
  readonly client: number
  readonly atMs: number
  readonly forMs: number
}

export interface Schedule {
  readonly seed: number
  readonly clients: number
  readonly weather: Weather
  readonly tasks: readonly Task[]
  readonly faults: readonly Fault[]
}

/** The faults end here; from then on everyone who lives must be served. */
const STORM_MS = 20_000
const LIMIT_MS = 400_000
const TTL_MS = 2_000

interface Resident {
  readonly actor: Actor
  readonly locks: Holdfast
}

interface Holding {
  readonly lease: Lease
  readonly line: string
  readonly weight: number
  readonly capacity: number
  readonly actor: Actor
}

/** One run of one schedule, checked at every step. */
export class World {
  readonly #time = new VirtualTime()
  readonly #schedule: Schedule
  readonly #random: Random
  readonly #store = new MemoryStore()
  readonly #outage: Outage = { until: 0 }
  readonly #residents: Resident[]
  readonly #holding = new Set<Holding>()
  readonly #lastFence = new Map<string, bigint>()
  #unfinished = 0
  /** The first thing that went wrong inside a task; the world stops for it. */
  #problem: Error | undefined

  constructor(schedule: Schedule) {
    this.#schedule = schedule
    this.#random = new Random(schedule.seed)
    this.#residents = Array.from({ length: schedule.clients }, () => this.#newResident())
  }

  async run(): Promise<void> {
    const { tasks, faults } = this.#schedule
    const time = this.#time
    this.#unfinished = tasks.length
    for (const task of tasks) this.#start(task)
    for (const fault of faults) time.after(fault.atMs, () => this.#strike(fault))
    const quiet = (): boolean => this.#unfinished === 0 && !this.#stormy
    await time.run(time.now + LIMIT_MS, () => this.#check(), quiet)
    assert.equal(this.#unfinished, 0, 'every live waiter is served, and every hold ends')
    await this.#close()
  }

  #newResident(): Resident {
    const actor: Actor = { pausedUntil: 0, crashed: false }
    const backend = faultyBackend({
      time: this.#time,
      store: this.#store,
      actor,
      random: this.#random,
      weather: () => (this.#stormy ? this.#schedule.weather : FAIR),
      outage: this.#outage,
    })
    const locks = new Holdfast(backend, { clock: clockOf(this.#time, actor, this.#random), ttl: TTL_MS })
    return { actor, locks }
  }

  get #stormy(): boolean {
    return this.#time.now < 1_000 + STORM_MS
  }

  /** Patience that ran out now may have begun in the storm. */
  get #stormyLately(): boolean {
    return this.#time.now < 1_000 + STORM_MS + 30_000
  }

  #start(task: Task): void {
    const resident = this.#residents[task.client % this.#residents.length]!
    let over = false
    const finished = (): void => {
      if (!over) this.#unfinished -= 1
      over = true
    }
    this.#onCrash(resident.actor, finished)
    this.#time.after(
      task.startMs,
      () => {
        this.#perform(task, resident)
          .catch((error: unknown) => this.#fail(error))
          .finally(finished)
      },
      resident.actor,
    )
  }

  #fail(error: unknown): void {
    this.#problem ??= error instanceof Error ? error : new Error(String(error))
  }

  readonly #crashHooks = new Map<Actor, (() => void)[]>()
  #onCrash(actor: Actor, fn: () => void): void {
    this.#crashHooks.set(actor, [...(this.#crashHooks.get(actor) ?? []), fn])
  }

  #strike(fault: Fault): void {
    const resident = this.#residents[fault.client % this.#residents.length]!
    const { actor } = resident
    const now = this.#time.now
    if (fault.kind === 'stall') this.#outage.until = Math.max(this.#outage.until, now + fault.forMs)
    if (fault.kind === 'pause') actor.pausedUntil = Math.max(actor.pausedUntil, now + fault.forMs)
    // In the middle of whatever its tasks do: each of them must end.
    if (fault.kind === 'close' && !actor.crashed)
      void resident.locks.close().catch((error: unknown) => this.#fail(error))
    if (fault.kind === 'crash' && !actor.crashed) {
      actor.crashed = true
      for (const holding of [...this.#holding]) if (holding.actor === actor) this.#holding.delete(holding)
      for (const hook of this.#crashHooks.get(actor) ?? []) hook()
    }
  }

  async #perform(task: Task, { actor, locks }: Resident): Promise<void> {
    const abort = new AbortController()
    if (task.abortMs !== undefined) this.#time.after(task.abortMs, () => abort.abort(new Error('aborted')), actor)
    const leases = await this.#take(task, locks, abort.signal)
    const holdings = leases.map((lease) => this.#enter(task, lease, actor))
    if (holdings.length === 0) return
    await new Promise<void>((resolve) => void this.#time.after(task.holdMs, resolve, actor))
    for (const holding of holdings) this.#holding.delete(holding)
    await Promise.all(leases.map((lease) => lease.release().catch(expectBroken)))
    for (const lease of leases) assert.ok(lease.state === 'released', 'a released lease says so')
  }

  /** The leases of one task; none when the answer was no, or unknown where that is allowed. */
  async #take(task: Task, locks: Holdfast, signal: AbortSignal): Promise<readonly Lease[]> {
    const options = { ...(task.waitMs === undefined ? {} : { wait: task.waitMs }), signal }
    try {
      if (task.line === 'both mutexes') {
        const group = locks.all(['mutex', 'other mutex'])
        return (task.tryOnly ? await group.tryAcquire() : await group.acquire(options))?.leases ?? []
      }
      const { lock, permits } = lockOf(task, locks)
      const lease = task.tryOnly ? await lock.tryAcquire({ permits }) : await lock.acquire({ ...options, permits })
      return lease === undefined ? [] : [lease]
    } catch (error) {
      if (error instanceof LockTimeoutError && task.waitMs !== undefined) return []
      if (signal.aborted && error === signal.reason) return []
      if (error instanceof ClosedError) return []
      // Whoever never waits, waits for a short while, or waits for several may learn that the answer is unknown.
      if (error instanceof BackendError && (task.tryOnly || task.waitMs !== undefined || task.line === 'both mutexes'))
        return []
      if (error instanceof LockLostError && task.line === 'both mutexes') return []
      // The store was out of reach for longer than anyone is patient: a service would ask again.
      if (error instanceof BackendError && this.#stormyLately) return await this.#take(task, locks, signal)
      throw error
    }
  }

  #enter(task: Task, lease: Lease, actor: Actor): Holding {
    const line = task.line === 'both mutexes' ? lease.name : lineOf(task)
    const holding = { lease, line, actor, ...shareOf(task) }
    if (line === 'mutex' || line === 'other mutex') {
      const last = this.#lastFence.get(line) ?? 0n
      // Two grants of a group may be told in either order, but each line's own go up.
      assert.ok(lease.fence > last, `fence ${lease.fence} of ${line} after ${last}`)
      this.#lastFence.set(line, lease.fence)
    }
    this.#holding.add(holding)
    this.#check()
    return holding
  }

  /** Never more weight held than capacity, by the holders' own view of time. */
  #check(): void {
    if (this.#problem !== undefined) throw this.#problem
    const sums = new Map<string, number>()
    for (const { lease, line, weight, capacity } of this.#holding) {
      if (lease.state !== 'held' && lease.state !== 'uncertain') continue
      const sum = (sums.get(line) ?? 0) + weight
      sums.set(line, sum)
      assert.ok(sum <= capacity, `${line}: ${sum} held of ${capacity} at ${this.#time.now}`)
    }
  }

  #standing(): number {
    const tickets = [...this.#store.lines].flatMap((line) => [...line.tickets()])
    return tickets.filter((ticket) => ticket.expiresAt > this.#time.now).length
  }

  async #close(): Promise<void> {
    const time = this.#time
    const closing = this.#residents.filter(({ actor }) => !actor.crashed).map(({ locks }) => locks.close())
    let closed = false
    const all = Promise.all(closing).then(() => void (closed = true))
    const crashed = this.#residents.some(({ actor }) => actor.crashed)
    await time.run(time.now + LIMIT_MS, () => {
      this.#check()
      // Everyone has left: a copy of a join that comes now must find its tombstone.
      if (closed && !crashed) assert.equal(this.#standing(), 0, 'no zombie stands in line')
    })
    assert.ok(closed, 'close ends')
    await all
    assert.equal(time.pending, 0, 'no timer is left')
    const operator = memory({
      store: this.#store,
      clock: clockOf(time, { pausedUntil: 0, crashed: false }, this.#random),
    })
    time.now += 10 * TTL_MS
    for await (const name of operator.names('')) assert.fail(`a ticket of ${name} is left`)
  }
}

function lineOf({ line }: Task): string {
  if (line === 'read' || line === 'write') return 'rw'
  if (line === 'one permit' || line === 'two permits') return 'semaphore'
  return line
}

function shareOf({ line }: Task): { weight: number; capacity: number } {
  if (line === 'read') return { weight: 1, capacity: RW_CAPACITY }
  if (line === 'write') return { weight: RW_CAPACITY, capacity: RW_CAPACITY }
  if (line === 'one permit') return { weight: 1, capacity: 3 }
  if (line === 'two permits') return { weight: 2, capacity: 3 }
  return { weight: 1, capacity: 1 }
}

function lockOf({ line }: Task, locks: Holdfast): { lock: Lock; permits: number } {
  if (line === 'read') return { lock: locks.readWriteLock('rw').read, permits: 1 }
  if (line === 'write') return { lock: locks.readWriteLock('rw').write, permits: 1 }
  if (line === 'one permit') return { lock: locks.semaphore('semaphore', 3), permits: 1 }
  if (line === 'two permits') return { lock: locks.semaphore('semaphore', 3), permits: 2 }
  return { lock: locks.lock(line), permits: 1 }
}

function expectBroken(error: unknown): void {
  if (!(error instanceof BackendError)) throw error
}
