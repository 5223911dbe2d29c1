import { type Holdfast, type Lease, BackendError } from '../../src/index.js'

/** Who believes to hold, by the holders' own view: never two at a time. */
export class Roster {
  readonly #leases = new Set<Lease>()
  readonly violations: string[] = []

  enter(lease: Lease): void {
    for (const other of this.#leases) {
      if (other.state !== 'held' && other.state !== 'uncertain') this.#leases.delete(other)
      else this.violations.push(`${lease.fence} came while ${other.fence} was ${other.state}`)
    }
    this.#leases.add(lease)
  }
}

/** Clients that take one lock again and again, whatever happens to the store. */
export class Contention {
  readonly roster = new Roster()
  readonly served: number[]
  /** Errors that were no `BackendError`: a broken store must be nothing else. */
  readonly surprises: unknown[] = []
  readonly fences: bigint[] = []
  readonly #workers: Promise<void>[]
  #stopped = false

  constructor(clients: readonly Holdfast[], name: string, ttl: number) {
    this.served = clients.map(() => 0)
    this.#workers = clients.map((client, index) => this.#work(client, name, ttl, index))
  }

  /** Until each client was served that often from now on. */
  async everyone(times: number, withinMs: number): Promise<void> {
    const goal = this.served.map((count) => count + times)
    const until = performance.now() + withinMs
    while (this.served.some((count, index) => count < goal[index]!)) {
      if (performance.now() > until) {
        throw new Error(`served ${this.served.join(', ')} where ${goal.join(', ')} was to be reached`)
      }
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#workers)
  }

  async #work(client: Holdfast, name: string, ttl: number, index: number): Promise<void> {
    while (!this.#stopped) {
      try {
        const lease = await client.lock(name).acquire({ ttl, wait: '10s' })
        this.roster.enter(lease)
        this.fences.push(lease.fence)
        await new Promise((resolve) => setTimeout(resolve, 30))
        if (lease.state === 'held') this.served[index]! += 1
        await lease.release()
      } catch (error) {
        const expected = error instanceof BackendError || (error instanceof Error && error.name === 'LockTimeoutError')
        if (!expected) this.surprises.push(error)
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    }
  }
}
