import type { JoinRequest, Standing } from '../../core/backend.js'
import { lineText } from '../../core/line.js'
import type { Node } from './node.js'

/** The client's side of one ticket over a quorum. */
export class Entry {
  readonly request: JoinRequest
  /** Its line as a text. */
  readonly line: string
  /** Every try has a ticket of its own on the servers, so that the tombstone of one never hits the next. */
  ticket: string
  /** The fence, once held. */
  order: bigint | undefined
  /** Monotonic: when the lease on the servers ends at the latest. */
  until = 0
  /** Monotonic: when it was last asked for. */
  askedAt = 0
  /** The try that is under way, and its place in the answers. */
  trying: { readonly call: Promise<readonly Standing[]>; readonly at: number } | undefined
  left = false
  /** Its last try failed, and is being taken back. */
  undone = false
  /** The servers said a clear no to its last try. */
  refused = false
  /** How long the servers took to decide the last try. */
  tookMs = 0
  /** Servers that did not answer the join, be it broken off or slow: they may have the ticket, or get it late. */
  readonly silent: Set<Node> = new Set()
  /** Servers that said that the ticket stood and is gone. */
  readonly released: Set<Node> = new Set()
  /** Servers that said that somebody evicted the ticket there. */
  readonly evicted: Set<Node> = new Set()
  /** Servers that did not have the ticket when it left: its join may come after its own leave. */
  #missed: Set<Node> | undefined
  /** Servers that granted the ticket when its leave was under way. */
  #late: Set<Node> | undefined
  #tries = 0

  constructor(request: JoinRequest) {
    this.request = request
    this.line = lineText(request.line)
    this.ticket = request.id
  }

  get tries(): number {
    return this.#tries
  }

  /** A new ticket for a new try. */
  again(): void {
    this.#tries += 1
    if (this.#tries === 1) return
    this.ticket = `${this.request.id}-${this.#tries.toString(36)}`
    this.silent.clear()
    this.released.clear()
    this.evicted.clear()
    this.undone = false
    this.#missed = undefined
    this.#late = undefined
  }

  /** This server did not have that ticket when it left; true when it has granted it since, so that it must leave again. */
  missed(ticket: string, node: Node): boolean {
    if (ticket !== this.ticket) return false
    this.#missed ??= new Set()
    this.#missed.add(node)
    return this.#late?.has(node) ?? false
  }

  /** This server granted that ticket; true when it has left there already, so that it must leave again. */
  appeared(ticket: string, node: Node): boolean {
    if (this.hasLeft(ticket, node)) return true
    // Its leave is under way, and which of the two came first is known with the answer to that.
    if (this.left || this.undone) {
      this.#late ??= new Set()
      this.#late.add(node)
    }
    return false
  }

  hasLeft(ticket: string, node: Node): boolean {
    return ticket !== this.ticket || (this.#missed?.has(node) ?? false)
  }

  get held(): boolean {
    return this.order !== undefined
  }
}
