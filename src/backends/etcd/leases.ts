import type { Cluster } from './cluster.js'
import { leaseGrantRequest, leaseRequest, readLease } from './messages.js'

/** An etcd lease of this client: all of its tickets of one ttl hang on it. */
export interface Lease {
  readonly id: bigint
  /** What was asked for. */
  readonly seconds: number
  /** What the server grants, which may be more than was asked for. */
  readonly ttlMs: number
  /** Until then, by our monotonic clock, the cluster surely keeps it. */
  untilMs: number
  /** The server said that it has ended. */
  gone: boolean
}

/** An answered keep-alive. It counts only once it is confirmed. */
export interface KeepAlive {
  readonly lease: Lease
  readonly sentAt: number
  readonly term: bigint
}

/** The leases of this client, and what is known about how long they last. */
export class Leases {
  readonly #cluster: Cluster
  readonly #gone: (lease: Lease) => void
  /** By seconds asked for. */
  readonly #kept = new Map<number, Lease>()
  readonly #forgetful = new Map<number, Lease>()
  readonly #granting = new Map<number, Promise<Lease>>()
  readonly #beating = new Map<Lease, Promise<KeepAlive | undefined>>()

  /** `gone` is called when a lease turns out to have ended. */
  constructor(cluster: Cluster, gone: (lease: Lease) => void) {
    this.#cluster = cluster
    this.#gone = gone
  }

  /** A lease of that ttl with most of it left. One that has been idle is left to end, with all that still hangs on it. */
  async get(ttlMs: number): Promise<Lease> {
    const seconds = wholeSeconds(ttlMs)
    const kept = this.#kept.get(seconds)
    if (kept !== undefined && !kept.gone && kept.untilMs - performance.now() > kept.ttlMs / 3) return kept
    const lease = await this.#grantOnce(seconds)
    this.#kept.set(seconds, lease)
    return lease
  }

  /** A lease that nobody keeps alive and that lasts for `ms` at least and about twice that at most. */
  async forgetful(ms: number): Promise<Lease> {
    const seconds = 2 * wholeSeconds(ms)
    const known = this.#forgetful.get(seconds)
    if (known !== undefined && !known.gone && known.untilMs - performance.now() > ms) return known
    const lease = await this.#grantOnce(-seconds)
    this.#forgetful.set(seconds, lease)
    return lease
  }

  /** A new lease. */
  async grant(seconds: number): Promise<Lease> {
    const sentAt = performance.now()
    const message = leaseGrantRequest(seconds)
    const { id, ttl } = await this.#cluster.call('/etcdserverpb.Lease/LeaseGrant', message, readLease)
    return { id, seconds, ttlMs: ttl * 1_000, untilMs: sentAt + ttl * 1_000, gone: false }
  }

  /** Whether a ticket of that ttl may go on hanging on this lease. */
  fits(lease: Lease, ttlMs: number): boolean {
    return lease.seconds === wholeSeconds(ttlMs)
  }

  /** Whether so much of the lease has run off that a call that uses it should also keep it alive. */
  isWorn(lease: Lease): boolean {
    return lease.untilMs - performance.now() < lease.ttlMs * 0.95
  }

  /** Asks for the lease to be kept; undefined: it has ended. */
  keepAlive(lease: Lease): Promise<KeepAlive | undefined> {
    let beat = this.#beating.get(lease)
    if (beat === undefined) {
      beat = this.#beat(lease).finally(() => this.#beating.delete(lease))
      this.#beating.set(lease, beat)
    }
    return beat
  }

  /**
   * Believes a keep-alive, when the cluster vouches for the member that answered it.
   *
   * A leader that was stopped answers the keep-alives that it finds in its sockets when it wakes, before it
   * learns that it leads no more (3.4 asks nobody else whether it does):
   *
   *     0 s   the leader of term 2 is stopped; a new one (term 3) starts all leases anew
   *     15 s  we send a keep-alive to the old one
   *     20 s  it wakes, and answers "30 s"; it was of no use to term 3, where the lease ends at about 31 s
   *           but we would believe in it until 45 s
   *
   * So `term` must be that of an answer which a majority stood behind (a Txn), to a call that was not sent
   * before the keep-alive. If the terms are equal, then a later leader, if any, was elected after the
   * keep-alive was sent, and gave every lease its whole ttl again at that time.
   */
  confirm(beat: KeepAlive, term: bigint): boolean {
    if (beat.term !== term) return false
    beat.lease.untilMs = Math.max(beat.lease.untilMs, beat.sentAt + beat.lease.ttlMs)
    return true
  }

  /** Marks a lease as ended. */
  lose(lease: Lease): void {
    if (lease.gone) return
    lease.gone = true
    for (const leases of [this.#kept, this.#forgetful]) {
      for (const [seconds, known] of leases) if (known === lease) leases.delete(seconds)
    }
    this.#gone(lease)
  }

  /** Ends leases at once, so that nothing of a closed client is left on the server. */
  async revokeIdle(isUsed: (lease: Lease) => boolean): Promise<void> {
    const idle = [...this.#kept.values()].filter((lease) => !lease.gone && !isUsed(lease))
    await Promise.allSettled(idle.map((lease) => this.revoke(lease)))
  }

  async revoke(lease: Lease): Promise<void> {
    lease.gone = true
    await this.#cluster.call('/etcdserverpb.Lease/LeaseRevoke', leaseRequest(lease.id), () => undefined, 1_000)
  }

  /** One grant for all that wait for the same ttl (negative: a forgetful one). */
  #grantOnce(seconds: number): Promise<Lease> {
    let granting = this.#granting.get(seconds)
    if (granting === undefined) {
      granting = this.grant(Math.abs(seconds)).finally(() => this.#granting.delete(seconds))
      this.#granting.set(seconds, granting)
    }
    return granting
  }

  async #beat(lease: Lease): Promise<KeepAlive | undefined> {
    const sentAt = performance.now()
    const message = leaseRequest(lease.id)
    const { header, ttl } = await this.#cluster.call('/etcdserverpb.Lease/LeaseKeepAlive', message, readLease)
    if (ttl > 0) return { lease, sentAt, term: header.term }
    this.lose(lease)
    return undefined
  }
}

function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1_000))
}
