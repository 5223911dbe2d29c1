import { setTimeout as sleep } from 'node:timers/promises'
import { BackendError, LockLostError } from '../../src/core/errors.js'
import type { Holdfast } from '../../src/core/holdfast.js'
import type { Lease } from '../../src/core/lease.js'

/** Clients that contend for one lock without a pause, and a referee who sees all of them at once. */
export class Contest {
  readonly #name: string
  readonly #inside = new Set<Lease>()
  readonly #stop = new AbortController()
  readonly #runs: Promise<void>[]
  #lastFence = 0n
  /** How often each client has held. */
  readonly served: number[]
  readonly violations: string[] = []
  lost = 0

  constructor(clients: readonly Holdfast[], name: string) {
    this.#name = name
    this.served = clients.map(() => 0)
    this.#runs = clients.map((client, index) => this.#run(client, index))
  }

  /** Resolves once every client has held so many more times. */
  async everyoneServed(times: number, withinMs = 40_000): Promise<void> {
    const wanted = this.served.map((count) => count + times)
    const until = performance.now() + withinMs
    while (wanted.some((count, index) => this.served[index]! < count)) {
      if (performance.now() > until) throw new Error(`served ${this.served.join(', ')}; wanted ${wanted.join(', ')}`)
      await sleep(20)
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('over'))
    await Promise.all(this.#runs)
  }

  async #run(client: Holdfast, index: number): Promise<void> {
    while (!this.#stop.signal.aborted) {
      let lease: Lease
      try {
        lease = await client.lock(this.#name).acquire({ signal: this.#stop.signal })
      } catch (error) {
        if (this.#stop.signal.aborted) return
        // Out of reach for long: the answer is unknown, and it is asked again.
        if (!(error instanceof BackendError)) this.violations.push(String(error))
        await sleep(50)
        continue
      }
      this.#enter(lease, index)
      await sleep(2 + Math.random() * 10)
      if (lease.state === 'lost') this.lost += 1
      this.#inside.delete(lease)
      await lease.release().catch((error: unknown) => {
        if (!(error instanceof BackendError || error instanceof LockLostError)) this.violations.push(String(error))
      })
    }
  }

  #enter(lease: Lease, index: number): void {
    for (const other of this.#inside) {
      // By the holders' own view, read at one instant: who still believes in a hold that another has.
      if (other.state === 'held' || other.state === 'uncertain') {
        this.violations.push(`client ${index} holds with ${lease.fence} while ${other.fence} is ${other.state}`)
      }
    }
    if (lease.fence <= this.#lastFence) this.violations.push(`fence ${lease.fence} after ${this.#lastFence}`)
    this.#lastFence = lease.fence
    this.#inside.add(lease)
    this.served[index]! += 1
  }
}

/** Acquires, however long the store is out of reach: core says that the answer is unknown after a while, and is asked again. */
export async function acquireThrough(client: Holdfast, name: string): Promise<Lease> {
  for (;;) {
    try {
      return await client.lock(name).acquire()
    } catch (error) {
      if (!(error instanceof BackendError && error.retryable)) throw error
    }
    await sleep(50)
  }
}
