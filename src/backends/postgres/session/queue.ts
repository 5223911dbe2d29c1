import type { Post } from './post.js'
import type { Posts } from './posts.js'
import { CANCEL, type Draws, UNLOCK_ONE } from './sql.js'
import type { LocalLine, Ticket } from './ticket.js'

/** A wait that could not begin, or broke, is begun again after this. */
const RETRY_MS = 100

/** What the queue says when the server has answered. */
interface Door {
  /** The head of the line has its lock. */
  admit(ticket: Ticket, post: Post, fence: string): void
  /** Takes locks that may be free now. */
  tryNow(tickets: readonly Ticket[]): Promise<void>
  /** The line may have nobody left. */
  settled(line: LocalLine): void
}

/** Our part of the server's queue: for each line with waiters one session, as far as there are any, for the first of them. */
export class Queue {
  readonly #posts: Posts
  readonly #draws: Draws
  readonly #door: Door
  /** Lines whose head found no session to wait on. */
  readonly #short = new Set<LocalLine>()
  #closed = false

  constructor(posts: Posts, draws: Draws, door: Door) {
    this.#posts = posts
    this.#draws = draws
    this.#door = door
  }

  add(line: LocalLine, ticket: Ticket): void {
    ticket.waits = true
    line.queue.push(ticket)
    void this.#pump(line)
  }

  /** Nobody of ours waits any more: the session that stands there must not be given the lock. */
  callOff(line: LocalLine): void {
    if (line.queue.length === 0 && line.waiter !== undefined) void this.#cancel(line.waiter.post)
  }

  /** A session holds nothing any more: the first line that is short of one gets it. */
  freed(post: Post): void {
    if (this.#closed || post.ended || post.isDesk) return
    this.#posts.give(post)
    for (const line of this.#short) {
      this.#short.delete(line)
      if (line.queue.length === 0) continue
      void this.#pump(line)
      return
    }
  }

  close(): void {
    this.#closed = true
  }

  /** Puts a session into the server's queue for the head of ours, unless one stands there. */
  async #pump(line: LocalLine): Promise<void> {
    if (this.#closed || line.starting || line.waiter !== undefined || line.queue.length === 0) return
    line.starting = true
    let post: Post | undefined
    try {
      post = await this.#posts.take()
    } catch {
      // Tried again soon; meanwhile the ticket's own renewals say that the server cannot be reached.
      this.#later(line)
      return
    } finally {
      line.starting = false
    }
    const head = line.queue[0]
    if (post === undefined) {
      this.#short.add(line)
    } else if (head === undefined) {
      this.freed(post)
      this.#door.settled(line)
    } else {
      const { shared } = head
      line.waiter = { post, shared, done: this.#wait(line, post, shared) }
    }
  }

  async #wait(line: LocalLine, post: Post, shared: boolean): Promise<void> {
    let fence: string | null | undefined
    let broke = false
    try {
      const [drawn] = await post.run(shared ? this.#draws.waitShared : this.#draws.waitAlone, [line.text], true)
      fence = drawn
    } catch {
      // Cancelled by us, or the connection broke. It may have got the lock a moment before: then this gives it back.
      post.end()
      broke = line.queue.length > 0
    }
    line.waiter = undefined
    const head = line.queue[0]
    if (typeof fence === 'string' && head !== undefined && head.shared === shared) {
      this.#door.admit(head, post, fence)
      if (shared) await this.#admitReaders(line)
    } else {
      if (typeof fence === 'string') {
        await post.run(UNLOCK_ONE, [line.text, shared]).catch(() => post.end())
      }
      this.freed(post)
    }
    if (broke) this.#later(line)
    else await this.#pump(line)
    this.#door.settled(line)
  }

  /** Readers behind a reader that came in may come in with it, as far as no writer waits. */
  async #admitReaders(line: LocalLine): Promise<void> {
    const until = line.queue.findIndex((ticket) => !ticket.shared)
    const readers = line.queue.slice(0, until === -1 ? line.queue.length : until)
    if (readers.length > 0) await this.#door.tryNow(readers).catch(() => undefined)
  }

  async #cancel(post: Post): Promise<void> {
    try {
      const desk = await this.#posts.desk()
      await desk.run(CANCEL, [post.pid])
    } catch {
      // It goes with its session, when the server gives it the lock at the latest.
      post.end()
    }
  }

  #later(line: LocalLine): void {
    setTimeout(() => void this.#pump(line), RETRY_MS).unref()
  }
}
