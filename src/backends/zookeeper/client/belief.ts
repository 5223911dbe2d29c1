/** What an exchange proves once it is answered (see `Belief`). */
export interface Mark {
  readonly sentAt: number
  /** When the latest exchange that had been answered by then was sent. */
  readonly previousSentAt: number
}

/**
 * Until when the session surely lives, as far as this client can prove it.
 *
 * It is the *leader* that ends sessions. A follower answers a client at once but tells the leader of it only
 * when the leader's next ping comes by, every half tick; and a follower that was cut off from its leader goes
 * on answering pings for several ticks. "Answered" therefore proves nothing by itself:
 *
 *   0.0 s  client → follower: ping, answered. The leader last heard of the session at -1.0 s
 *   0.1 s  the follower dies; the client cannot reach another one
 *   9.0 s  the leader ends the 10 s session; a client that counts from 0.0 s would hold until 10.0 s
 *
 * Only exchanges that pass through the leader (writes and `sync`) are counted, and the channel from follower
 * to leader keeps its order. So the answer to exchange n+1 proves that the leader has received what the
 * follower told it at the last ping before exchange n: every exchange that was answered half a tick before n
 * was sent.
 */
export class Belief {
  readonly #halfTickMs: number
  #timeoutMs = 0
  #until = 0
  #latestSentAt = 0
  /** Answered exchanges of this connection, oldest first, thinned out. */
  #exchanges: { sentAt: number; answeredAt: number }[] = []

  constructor(tickMs: number) {
    this.#halfTickMs = tickMs / 2
  }

  /** On the clock of `performance.now()`. */
  get until(): number {
    return this.#until
  }

  /** A server took the session up, which is asked of the leader: the one full proof. What other servers were told counts no more. */
  attached(sentAt: number, now: number, timeoutMs: number, fresh: boolean): void {
    this.#timeoutMs = timeoutMs
    this.#until = fresh ? sentAt + timeoutMs : Math.max(this.#until, sentAt + timeoutMs)
    this.#latestSentAt = sentAt
    this.#exchanges = [{ sentAt, answeredAt: now }]
  }

  sending(now: number): Mark {
    return { sentAt: now, previousSentAt: this.#latestSentAt }
  }

  answered(mark: Mark, now: number): void {
    // A server's least session time-out is two ticks unless it was told otherwise.
    const halfTickMs = Math.min(this.#halfTickMs, this.#timeoutMs / 4)
    const told = mark.previousSentAt - halfTickMs
    while (this.#exchanges.length > 1 && this.#exchanges[1]!.answeredAt <= told) this.#exchanges.shift()
    const proven = this.#exchanges[0]
    if (proven !== undefined && proven.answeredAt <= told) {
      this.#until = Math.max(this.#until, proven.sentAt + this.#timeoutMs)
    }
    this.#latestSentAt = Math.max(this.#latestSentAt, mark.sentAt)
    const last = this.#exchanges.at(-1)
    if (last === undefined || mark.sentAt - last.sentAt >= this.#timeoutMs / 40) {
      this.#exchanges.push({ sentAt: mark.sentAt, answeredAt: now })
    }
  }
}
