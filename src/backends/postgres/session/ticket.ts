import type { Holder, JoinRequest } from '../../../core/backend.js'
import { type LineKey, lineText } from '../../../core/line.js'
import type { Post } from './post.js'

/** A ticket of this process. The server knows only its lock. */
export interface Ticket {
  readonly id: string
  readonly line: LineKey
  /** 'mutex:NAME': what the key is the hash of. */
  readonly text: string
  readonly shared: boolean
  readonly weight: number
  readonly capacity: number
  readonly holder: Holder
  readonly joined: number
  /** Whether it is lined up when its lock is not free, or refused. */
  readonly mayWait: boolean
  ttlMs: number
  /** The session that holds its lock, and the fence drawn there. */
  post: Post | undefined
  order: bigint | undefined
  /** Its join was answered with waiting, so its grant is told; else the join's own answer says it. */
  waits: boolean
  /** It was left while its lock was still being asked for: free it as soon as it comes. */
  left: boolean
}

export function ticketOf({ id, line, weight, capacity, wait, holder, ttlMs }: JoinRequest): Ticket {
  return {
    id,
    line,
    text: lineText(line),
    shared: line.kind === 'rw' && weight < capacity,
    weight,
    capacity,
    holder,
    joined: performance.now(),
    mayWait: wait,
    ttlMs,
    post: undefined,
    order: undefined,
    waits: false,
    left: false,
  }
}

/** What this process has to do with one line: who holds here, and who waits here behind one waiting session. */
export class LocalLine {
  readonly text: string
  /** Those that hold, and those whose lock is just being tried. */
  readonly holders: Map<string, Ticket> = new Map<string, Ticket>()
  readonly queue: Ticket[] = []
  /** The session that stands in the server's queue for the head of ours. */
  waiter: { readonly post: Post; readonly shared: boolean; readonly done: Promise<void> } | undefined
  /** A session is being opened or is short. */
  starting = false

  constructor(text: string) {
    this.text = text
  }

  /** Whether a new ticket may try at once: nobody waits here, and nobody who holds here is in its way. */
  admits(shared: boolean): boolean {
    if (this.queue.length > 0) return false
    return this.holders.size === 0 || (shared && [...this.holders.values()].every((holder) => holder.shared))
  }

  get isIdle(): boolean {
    return this.holders.size === 0 && this.queue.length === 0 && this.waiter === undefined && !this.starting
  }

  remove(ticket: Ticket): void {
    this.holders.delete(ticket.id)
    const at = this.queue.indexOf(ticket)
    if (at !== -1) this.queue.splice(at, 1)
  }
}
