import { plainArray, textArray } from '../arrays.js'
import type { Post } from './post.js'
import type { Posts } from './posts.js'
import { CANCEL, type Draws, draws, HAS_LOCK, PROBE, UNLOCK, UNLOCK_ONE } from './sql.js'
import { LocalLine, type Ticket } from './ticket.js'

/** When to look again: the server tells, so seldom; without a session to wait on, by trying. */
const LOOK_MS = 1_000
const POLL_MS = 50
const RETRY_MS = 100

/**
 * The local half of each line. A lock that is free is tried and held on the desk, many at a time. For one that is
 * not, one session stands in the server's queue for the first of our waiters, the others wait here behind it.
 */
export class Doorkeeper {
  readonly #posts: Posts
  readonly #draws: Draws
  readonly #granted: (ticket: Ticket, post: Post, order: bigint) => void
  readonly #lines = new Map<string, LocalLine>()
  readonly #tickets = new Map<string, Ticket>()
  readonly #refused = new Set<string>()
  /** Lines whose head found no session to wait on. */
  readonly #short = new Set<LocalLine>()
  #closed = false

  constructor(posts: Posts, schema: string, granted: (ticket: Ticket, post: Post, order: bigint) => void) {
    this.#posts = posts
    this.#draws = draws(schema)
    this.#granted = granted
  }

  find(id: string): Ticket | undefined {
    return this.#tickets.get(id)
  }

  /** True once, for a ticket that was refused by the last call that brought it. */
  wasRefused(id: string): boolean {
    return this.#refused.delete(id)
  }

  /** Tries what may be tried, and lines up or refuses the rest. */
  async enter(tickets: readonly Ticket[], waits: ReadonlySet<string>): Promise<void> {
    const tries: Ticket[] = []
    for (const ticket of tickets) {
      const line = this.#line(ticket.text)
      this.#tickets.set(ticket.id, ticket)
      if (line.admits(ticket.shared)) {
        line.holders.set(ticket.id, ticket)
        tries.push(ticket)
      } else if (waits.has(ticket.id)) {
        this.#lineUp(line, ticket)
      } else {
        this.#refuse(ticket)
      }
    }
    try {
      await this.#try(tries)
    } catch (error) {
      // Unknown is neither yes nor no: whatever the session got is freed with it.
      for (const ticket of tries) this.depart(ticket)
      throw error
    }
    for (const ticket of tries) {
      if (ticket.order !== undefined || this.#tickets.get(ticket.id) !== ticket) continue
      const line = this.#line(ticket.text)
      line.holders.delete(ticket.id)
      if (waits.has(ticket.id)) {
        this.#lineUp(line, ticket)
      } else {
        this.#refuse(ticket)
      }
    }
  }

  /** Whether a waiting ticket came through without our having heard of it yet. */
  async look(ticket: Ticket): Promise<void> {
    const line = this.#lines.get(ticket.text)
    if (line === undefined || line.queue[0] !== ticket) return
    const { waiter } = line
    if (waiter !== undefined) {
      const desk = await this.#posts.desk()
      const [row] = await desk.run(HAS_LOCK, [waiter.post.pid])
      if (row?.['has'] === 'true') await waiter.done
    } else if (!line.starting && line.holders.size === 0) {
      line.queue.shift()
      line.holders.set(ticket.id, ticket)
      try {
        await this.#try([ticket])
      } finally {
        if (ticket.order === undefined && this.#tickets.get(ticket.id) === ticket) {
          line.holders.delete(ticket.id)
          line.queue.unshift(ticket)
        }
      }
    }
  }

  /** How many of ours stand before it, and when to look again. */
  outlook(ticket: Ticket): { ahead: number; lookAgainMs: number } {
    const line = this.#line(ticket.text)
    const place = Math.max(0, line.queue.indexOf(ticket))
    const polls = line.waiter === undefined && !line.starting
    return { ahead: place + 1, lookAgainMs: polls ? POLL_MS : LOOK_MS }
  }

  /** A ticket that holds no lock leaves. */
  giveUp(ticket: Ticket): void {
    ticket.left = true
    const line = this.#line(ticket.text)
    this.depart(ticket)
    if (line.queue.length === 0 && line.waiter !== undefined) void this.#cancel(line.waiter)
  }

  /** A ticket is gone, and its lock with it. */
  depart(ticket: Ticket): void {
    ticket.left = true
    this.#tickets.delete(ticket.id)
    const line = this.#lines.get(ticket.text)
    line?.remove(ticket)
    const { post } = ticket
    delete ticket.post
    if (post !== undefined && post.holds.size === 0) void this.#free(post)
    if (line?.isIdle === true) this.#lines.delete(ticket.text)
  }

  close(): void {
    this.#closed = true
  }

  async #try(tickets: readonly Ticket[]): Promise<void> {
    if (tickets.length === 0) return
    const desk = await this.#posts.desk()
    const admitted = await this.#passProbe(desk, tickets)
    if (admitted.length === 0) return
    const [only] = admitted
    const rows = await (admitted.length === 1 && only !== undefined
      ? desk.run(this.#draws.tryOne, [only.text, only.shared])
      : desk.run(this.#draws.tryAll, keysOf(admitted))
    ).catch((error: unknown) => {
      // A statement that fails gives back no lock it got: only the end of its session does.
      desk.end()
      throw error
    })
    const late: Ticket[] = []
    for (const [i, ticket] of admitted.entries()) {
      const fence = rows[i]?.['fence']
      if (typeof fence !== 'string') continue
      if (ticket.left || ticket.order !== undefined) late.push(ticket)
      else this.#admit(ticket, desk, fence)
    }
    if (late.length > 0) await desk.run(UNLOCK, keysOf(late))
  }

  /**
   * A session that has a shared lock gets it again at once, past a writer that waits for it: so before the desk takes
   * one more, another session asks whether a newcomer would get it.
   */
  async #passProbe(desk: Post, tickets: readonly Ticket[]): Promise<readonly Ticket[]> {
    const again = tickets.filter(
      (ticket) => ticket.shared && [...this.#line(ticket.text).holders.values()].some((other) => other.post === desk),
    )
    if (again.length === 0) return tickets
    const probe = await this.#posts.probe()
    const rows = await probe.run(PROBE, keysOf(again))
    const barred = new Set(again.filter((_, i) => rows[i]?.['free'] !== 'true'))
    return tickets.filter((ticket) => !barred.has(ticket))
  }

  #lineUp(line: LocalLine, ticket: Ticket): void {
    ticket.waits = true
    line.queue.push(ticket)
    void this.#pump(line)
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
      return
    }
    if (head === undefined) {
      void this.#free(post)
      if (line.isIdle) this.#lines.delete(line.text)
      return
    }
    const { shared } = head
    const done = this.#wait(line, post, shared)
    line.waiter = { post, shared, done }
  }

  async #wait(line: LocalLine, post: Post, shared: boolean): Promise<void> {
    let fence: string | null | undefined
    let broke = false
    try {
      const [row] = await post.run(shared ? this.#draws.waitShared : this.#draws.waitAlone, [line.text], true)
      fence = row?.['fence']
    } catch {
      // Cancelled by us, or the connection broke. It may have got the lock a moment before: then this gives it back.
      post.end()
      broke = line.queue.length > 0
    }
    line.waiter = undefined
    const head = line.queue[0]
    if (typeof fence === 'string' && head !== undefined && head.shared === shared) {
      this.#admit(head, post, fence)
      if (shared) await this.#admitReaders(line)
    } else {
      if (typeof fence === 'string') {
        await post.run(UNLOCK_ONE, [line.text, shared]).catch(() => post.end())
      }
      await this.#free(post)
    }
    if (broke) this.#later(line)
    else await this.#pump(line)
    if (line.isIdle) this.#lines.delete(line.text)
  }

  /** Readers behind a reader that came in may come in with it, as far as no writer waits. */
  async #admitReaders(line: LocalLine): Promise<void> {
    const until = line.queue.findIndex((ticket) => !ticket.shared)
    const readers = line.queue.slice(0, until === -1 ? line.queue.length : until)
    if (readers.length === 0) return
    await this.#try(readers).catch(() => undefined)
  }

  /** In one step, so that no ticket gets two locks. */
  #admit(ticket: Ticket, post: Post, fence: string): void {
    const line = this.#line(ticket.text)
    line.remove(ticket)
    line.holders.set(ticket.id, ticket)
    this.#granted(ticket, post, BigInt(fence))
  }

  async #cancel(waiter: { readonly post: Post; readonly done: Promise<void> }): Promise<void> {
    try {
      const desk = await this.#posts.desk()
      await desk.run(CANCEL, [waiter.post.pid])
    } catch {
      // It goes with its session, when the server gives it the lock at the latest.
      waiter.post.end()
    }
  }

  /** A session is free: the first line that is short of one gets it. */
  async #free(post: Post): Promise<void> {
    if (this.#closed || post.ended || post === (await this.#posts.desk().catch(() => undefined))) return
    this.#posts.give(post)
    for (const line of this.#short) {
      this.#short.delete(line)
      if (line.queue.length === 0) continue
      await this.#pump(line)
      return
    }
  }

  #later(line: LocalLine): void {
    setTimeout(() => void this.#pump(line), RETRY_MS).unref()
  }

  #refuse(ticket: Ticket): void {
    this.#refused.add(ticket.id)
    this.depart(ticket)
  }

  #line(text: string): LocalLine {
    let line = this.#lines.get(text)
    if (line === undefined) {
      line = new LocalLine(text)
      this.#lines.set(text, line)
    }
    return line
  }
}

function keysOf(tickets: readonly Ticket[]): [string, string] {
  return [textArray(tickets.map((ticket) => ticket.text)), plainArray(tickets.map((ticket) => ticket.shared))]
}
