import type { Mark } from './belief.js'
import type { ZooKeeperError } from './errors.js'
import { Reader } from './jute.js'

/** `zxid`: the last transaction that the server had done when it answered; for a write, that is the write's own. */
export type Done = (error: ZooKeeperError | undefined, reader: Reader, zxid: bigint) => void

/** A request that was sent. */
export interface Sent {
  readonly xid: number
  readonly what: string
  readonly mark: Mark
  /** Whether the leader has a part in the answer (see `Belief`). */
  readonly led: boolean
  readonly done: Done
}

/** What is left to read of an answer that is an error. */
export const NOTHING: Reader = new Reader(Buffer.alloc(0))

/** The requests that were sent and not answered yet. A server answers them in their order. */
export class Unanswered {
  /** Oldest first, from `#head` on. */
  #requests: (Sent | undefined)[] = []
  #head = 0
  #nextXid = 1

  get oldest(): Sent | undefined {
    return this.#requests[this.#head]
  }

  /** Notes a request that is about to be sent. Returns the number that its answer will bear. */
  add(what: string, led: boolean, mark: Mark, done: Done): number {
    const xid = this.#nextXid
    this.#nextXid = xid === 0x7fffffff ? 1 : xid + 1
    this.#requests.push({ xid, what, led, done, mark })
    return xid
  }

  /** The request that an answer is for. */
  answered(xid: number): Sent {
    const request = this.#requests[this.#head]
    if (request === undefined || request.xid !== xid) throw new Error('the server answered out of order')
    // Let go of at once: what it would keep alive is whole calls of many locks.
    this.#requests[this.#head] = undefined
    this.#head += 1
    if (this.#head > 1_024 && this.#head * 2 > this.#requests.length) {
      this.#requests = this.#requests.slice(this.#head)
      this.#head = 0
    }
    return request
  }

  /** The connection broke: none of them will be answered. */
  fail(why: (request: Sent) => ZooKeeperError): void {
    const lost = this.#requests.slice(this.#head)
    this.#requests = []
    this.#head = 0
    for (const one of lost) one?.done(why(one), NOTHING, 0n)
  }
}
