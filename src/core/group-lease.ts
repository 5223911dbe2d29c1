import type { Lease, LeaseState } from './lease.js'
import type { AcquireOptions } from './options.js'

/** A hold on several lines at once. It has no fence of its own: each line has one, in `leases`. */
export class GroupLease implements AsyncDisposable {
  readonly leases: readonly Lease[]
  #controller: AbortController | undefined
  #released: Promise<boolean> | undefined

  /** @internal */
  constructor(leases: readonly Lease[]) {
    this.leases = leases
  }

  get names(): string[] {
    return this.leases.map((lease) => lease.name)
  }

  /** Aborts when any of them is lost. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController()
      this.#controller = controller
      for (const { signal } of this.leases) {
        if (signal.aborted) controller.abort(signal.reason)
        else
          signal.addEventListener('abort', () => controller.abort(signal.reason), {
            once: true,
            signal: controller.signal,
          })
      }
    }
    return this.#controller.signal
  }

  /** The worst of them. */
  get state(): LeaseState {
    const states = this.leases.map((lease) => lease.state)
    for (const state of ['lost', 'released', 'uncertain'] as const) if (states.includes(state)) return state
    return 'held'
  }

  get remainingMs(): number {
    return Math.min(...this.leases.map((lease) => lease.remainingMs))
  }

  assertHeld(): void {
    for (const lease of this.leases) lease.assertHeld()
  }

  async renew(ttl?: AcquireOptions['ttl']): Promise<void> {
    await Promise.all(this.leases.map((lease) => lease.renew(ttl)))
  }

  /** True when all of them were still ours. */
  release(): Promise<boolean> {
    this.#released ??= releaseAll(this.leases)
    return this.#released
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.leases.map((lease) => lease[Symbol.asyncDispose]()))
  }

  toJSON(): Record<string, unknown> {
    return { state: this.state, leases: this.leases.map((lease) => lease.toJSON()) }
  }
}

async function releaseAll(leases: readonly Lease[]): Promise<boolean> {
  const released = await Promise.allSettled(leases.map((lease) => lease.release()))
  const failed = released.find((one) => one.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return released.every((one) => one.status === 'fulfilled' && one.value)
}
