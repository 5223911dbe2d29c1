import type { Client } from './client.js'
import { runInside } from './context.js'
import { Lease } from './lease.js'
import type { Lock } from './lock.js'
import { checkFunction, type LockOptions } from './options.js'
import { type TicketInfo, viewLine } from './view.js'

export interface LeadOptions extends LockOptions {
  /** Stops campaigning, and stops leading: the lease's signal aborts, and `lead` ends when the function has. */
  readonly signal?: AbortSignal
}

/** What the function of a term is given: its lease, whose signal also aborts when the election is stopped. */
export interface Term {
  readonly lease: Lease
  readonly signal: AbortSignal
}

/** Leader election: a mutex that is held for as long as one leads. */
export class Election {
  readonly name: string
  readonly #client: Client
  readonly #lock: Lock

  /** @internal */
  constructor(client: Client, lock: Lock) {
    this.#client = client
    this.#lock = lock
    this.name = lock.name
  }

  /**
   * Campaigns, and runs the function while leader. When the lead is lost the function's signal aborts,
   * and once it has settled the campaign starts again: a term never begins before the previous one's
   * function has ended. Resolves with the function's result when it returns while still leading, and
   * rejects with its error, or with the signal's reason when stopped.
   */
  async lead<T>(fn: (lease: Lease, term: Term) => T | PromiseLike<T>, options: LeadOptions = {}): Promise<Awaited<T>> {
    checkFunction(fn, 'lead')
    const { signal } = options
    for (;;) {
      const lease = await this.#lock.acquire(options)
      const term = { lease, signal: signal === undefined ? lease.signal : AbortSignal.any([lease.signal, signal]) }
      let result: Awaited<T>
      try {
        result = await runInside([Lease.holdOf(lease)], () => fn(lease, term))
      } catch (error) {
        // An error of a term that was lost is the loss showing; the next term may do better.
        if (lease.state !== 'lost' || signal?.aborted || this.#client.desk.closing) throw error
        continue
      } finally {
        await lease[Symbol.asyncDispose]()
      }
      if (!lease.signal.aborted) return result
      signal?.throwIfAborted()
      this.#client.assertOpen()
    }
  }

  /** Who leads now, if anyone. */
  async leader(): Promise<TicketInfo | undefined> {
    await this.#client.ready()
    const views = await this.#client.ask((backend) => backend.view(this.name))
    const line = views.map(viewLine).find((view) => view.kind === 'mutex')
    return line?.tickets.find((ticket) => ticket.state === 'held')
  }
}
