import type {
  Backend,
  BackendEvents,
  Guarantees,
  JoinRequest,
  LeaveRequest,
  LineView,
  RenewRequest,
  Standing,
} from '../../core/backend.js'
import type { BackendError } from '../../core/errors.js'
import { KINDS } from '../../core/line.js'
import { Cluster, type ClusterOptions } from './cluster.js'
import { isNoSpace, storeError } from './failure.js'
import { join } from './join.js'
import { Keys } from './keys.js'
import { type Lease, Leases } from './leases.js'
import { dropLapsed, leave } from './leave.js'
import { names, view } from './look.js'
import { Rechecks } from './recheck.js'
import { renew } from './renew.js'
import { runReads, type Store } from './store.js'
import { Tickets } from './tickets.js'
import { Watches } from './watches.js'

/** A line as keys of an etcd cluster, ordered by their create revision and kept alive by leases. */
export class EtcdBackend implements Backend, Store {
  readonly name = 'etcd'
  // A group of so many lines fits into the 128 operations that one Txn may have.
  readonly maxBatch = 40
  readonly keys: Keys
  readonly cluster: Cluster
  readonly leases: Leases
  readonly tickets: Tickets
  readonly watches: Watches
  readonly rechecks: Rechecks
  events: BackendEvents = { granted() {}, moved() {}, lost() {}, unsure() {} }
  /** With the server's default election timeout of one second; `open` asks this server. */
  #minTtlMs = 2_000
  /** The clients whose inbox is watched: in practice one. */
  readonly #inboxes = new Set<string>()
  #closed = false

  constructor(options: ClusterOptions & { readonly prefix: string }) {
    this.keys = new Keys(options.prefix)
    this.cluster = new Cluster(options, () => this.#broken())
    this.leases = new Leases(this.cluster, (lease) => this.#leaseGone(lease))
    this.tickets = new Tickets(this.keys, (tickets) => dropLapsed(this, tickets))
    this.watches = new Watches(this.cluster, () => this.#broken())
    this.rechecks = new Rechecks(this)
  }

  get guarantees(): Guarantees {
    return {
      scope: 'network',
      order: 'fifo',
      wake: 'push',
      fence: 'strict',
      lease: 'session',
      handover: true,
      atomicGroup: true,
      minHold: 'store',
      kinds: KINDS,
      survives: ['client-crash', 'store-restart', 'store-failover', 'minority-loss'],
      minTtlMs: this.#minTtlMs,
      ttlGranularityMs: 1_000,
      sentence:
        'A majority of the members must be up; leases run on the leader’s monotonic clock, so no step of a wall clock matters, and a new leader gives every lease its whole ttl again.',
    }
  }

  async open(events: BackendEvents): Promise<void> {
    this.events = events
    const release = keepProcessAlive()
    try {
      // Shows that we may read there, and what the shortest lease of this server is.
      await runReads(this, [[{ op: 'range', key: this.keys.inbox('?'), keysOnly: true }]])
      const probe = await this.leases.grant(1)
      this.#minTtlMs = probe.ttlMs
      await this.leases.revoke(probe)
    } catch (error) {
      // With its quota used up the server still lets holders go, and shows who they are.
      if (isNoSpace(error)) return
      // Who could not open is not closed either, but may open again.
      this.cluster.disconnect()
      throw storeError('opening', error)
    } finally {
      release()
    }
  }

  async join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    for (const { holder } of requests) this.#listen(holder.client)
    return await this.#told('joining a line', join(this, requests))
  }

  async renew(requests: readonly RenewRequest[]): Promise<Standing[]> {
    for (const { id, nextHolder } of requests) {
      const holder = nextHolder ?? this.tickets.get(id)?.holder
      if (holder !== undefined) this.#listen(holder.client)
    }
    return await this.#told('renewing', renew(this, requests))
  }

  async leave(requests: readonly LeaveRequest[]): Promise<(boolean | BackendError)[]> {
    return await this.#told('leaving a line', leave(this, requests))
  }

  async view(name: string): Promise<LineView[]> {
    return await this.#told('reading a line', view(this, name))
  }

  async *names(prefix: string): AsyncGenerator<string> {
    try {
      yield* names(this, prefix)
    } catch (error) {
      throw storeError('reading names', error)
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const used = new Set([...this.tickets.all()].map((ticket) => ticket.lease))
    this.tickets.stop()
    // A ticket that was handed over and is not adopted yet still hangs on its lease: that one ends by itself.
    const release = keepProcessAlive()
    await this.leases.revokeIdle((lease) => used.has(lease))
    release()
    this.watches.close()
    this.cluster.close()
  }

  async #told<T>(doing: string, answer: Promise<T>): Promise<T> {
    try {
      return await answer
    } catch (error) {
      throw storeError(doing, error)
    }
  }

  /** Connection or watches are gone: every ticket renews now, which connects again and watches again. */
  #broken(): void {
    for (const ticket of this.tickets.all()) {
      ticket.unwatch = undefined
      ticket.behind = undefined
    }
    if (!this.#closed && this.tickets.size > 0) this.events.unsure()
  }

  #leaseGone(lease: Lease): void {
    const lost = this.tickets.on(lease)
    for (const ticket of lost) this.tickets.remove(ticket)
    if (lost.length > 0) this.events.lost(lost.map(({ id }) => id))
  }

  /** Whoever takes a ticket from this client (evict, takeover) leaves the ticket's id in its inbox. */
  #listen(client: string): void {
    if (this.#inboxes.has(client)) return
    this.#inboxes.add(client)
    const taken = (ids: readonly string[]): void => {
      for (const id of ids) {
        const ticket = this.tickets.get(id)
        if (ticket !== undefined) this.tickets.remove(ticket)
      }
      this.events.lost(ids)
    }
    // Also where no connection could be made, and so none will break: whoever joins or renews next listens again.
    this.watches.values(this.keys.inbox(client), taken, () => this.#inboxes.delete(client))
  }
}

/** The sockets do not: so what somebody waits for, beside the calls that core counts, must. */
function keepProcessAlive(): () => void {
  const timer = setInterval(() => undefined, 60_000)
  return () => clearInterval(timer)
}
