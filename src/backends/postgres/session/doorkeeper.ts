import { plainArray, textArray } from '../arrays.js'
import type { Post } from './post.js'
import type { Posts } from './posts.js'
import { Queue } from './queue.js'
import { type Draws, draws, PLACE, PROBE, UNLOCK } from './sql.js'
import { LocalLine, type Ticket } from './ticket.js'

/** When to look again: the server tells, so seldom; without a session to wait on, by trying. */
const LOOK_MS = 1_000
const POLL_MS = 50

/**
 * The local half of each line. A lock that is free is tried and held on the desk, many at a time. For one that is
 * not, one session stands in the server's queue for the first of our waiters, the others wait here behind it.
 */
export class Doorkeeper {
  readonly #posts: Posts
  readonly #draws: Draws
  readonly #queue: Queue
  readonly #granted: (ticket: Ticket, post: Post, order: bigint) => void
  readonly #lines = new Map<string, LocalLine>()
  readonly #tickets = new Map<string, Ticket>()
  readonly #refused = new Set<string>()
  /** Tries that had no answer: the lock may be had by a session of ours that the server does not know to be gone. */
  readonly #unsure = new Set<string>()

  constructor(posts: Posts, schema: string, granted: (ticket: Ticket, post: Post, order: bigint) => void) {
    this.#posts = posts
    this.#draws = draws(schema)
    this.#granted = granted
    this.#queue = new Queue(posts, this.#draws, {
      admit: (ticket, post, fence) => this.#admit(ticket, post, fence),
      tryNow: (tickets) => this.#try(tickets),
      settled: (line) => this.#forgetIdle(line),
    })
  }

  find(id: string): Ticket | undefined {
    return this.#tickets.get(id)
  }

  /** True once, for a ticket that was refused by the last call that brought it. */
  wasRefused(id: string): boolean {
    return this.#refused.delete(id)
  }

  /** Whether an earlier try of this id had no answer: what refuses it now may be what that one got. */
  isUnsure(id: string): boolean {
    return this.#unsure.has(id)
  }

  /** Nobody asks for it any more. */
  forgetTry(id: string): void {
    if (this.#unsure.size > 0) this.#unsure.delete(id)
  }

  /** Tries what may be tried, and lines up or refuses the rest. */
  async enter(tickets: readonly Ticket[]): Promise<void> {
    const tries: Ticket[] = []
    for (const ticket of tickets) {
      const line = this.#line(ticket.text)
      this.#tickets.set(ticket.id, ticket)
      if (line.admits(ticket.shared)) {
        line.holders.set(ticket.id, ticket)
        tries.push(ticket)
      } else {
        this.#notNow(line, ticket)
      }
    }
    if (tries.length === 0) return
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
      this.#notNow(line, ticket)
    }
  }

  /** Whether a waiting ticket came through without our having heard of it yet. */
  async look(ticket: Ticket): Promise<void> {
    const line = this.#lines.get(ticket.text)
    if (line === undefined || line.queue[0] !== ticket) return
    const { waiter } = line
    if (waiter !== undefined) {
      const desk = await this.#posts.desk()
      const [place] = await desk.run(PLACE, [waiter.post.pid])
      if (line.waiter !== waiter) return
      waiter.post.expectAnswer(place !== 'waits')
      if (place === 'has') await waiter.done
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
    const line = this.#line(ticket.text)
    this.depart(ticket)
    this.#queue.callOff(line)
  }

  /** A ticket is gone, and its lock with it. */
  depart(ticket: Ticket): void {
    ticket.left = true
    this.#tickets.delete(ticket.id)
    const line = this.#lines.get(ticket.text)
    line?.remove(ticket)
    const { post } = ticket
    ticket.post = undefined
    if (post !== undefined && post.holds.size === 0) this.#queue.freed(post)
    if (line !== undefined) this.#forgetIdle(line)
  }

  close(): void {
    this.#queue.close()
  }

  async #try(tickets: readonly Ticket[]): Promise<void> {
    const desk = await this.#posts.desk()
    const admitted = tickets.some((ticket) => ticket.shared) ? await this.#passProbe(desk, tickets) : tickets
    const [first] = admitted
    if (first === undefined) return
    const fences = await (admitted.length === 1
      ? desk.run(this.#draws.tryOne, [first.text, first.shared])
      : desk.run(this.#draws.tryAll, keysOf(admitted))
    ).catch((error: unknown) => {
      // A statement that fails gives back no lock it got: only the end of its session does.
      desk.end()
      for (const { id, mayWait } of admitted) if (!mayWait) this.#unsure.add(id)
      throw error
    })
    const late: Ticket[] = []
    for (const [i, ticket] of admitted.entries()) {
      const fence = fences[i]
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
    const free = await probe.run(PROBE, keysOf(again))
    const barred = new Set(again.filter((_, i) => free[i] !== 'true'))
    return tickets.filter((ticket) => !barred.has(ticket))
  }

  /** In one step, so that no ticket gets two locks. */
  #admit(ticket: Ticket, post: Post, fence: string): void {
    const line = this.#line(ticket.text)
    line.remove(ticket)
    line.holders.set(ticket.id, ticket)
    this.#granted(ticket, post, BigInt(fence))
  }

  /** It is not free: wait for it, or be refused. */
  #notNow(line: LocalLine, ticket: Ticket): void {
    if (ticket.mayWait) {
      this.#queue.add(line, ticket)
    } else {
      this.#refused.add(ticket.id)
      this.depart(ticket)
    }
  }

  #line(text: string): LocalLine {
    let line = this.#lines.get(text)
    if (line === undefined) {
      line = new LocalLine(text)
      this.#lines.set(text, line)
    }
    return line
  }

  #forgetIdle(line: LocalLine): void {
    if (line.isIdle && this.#lines.get(line.text) === line) this.#lines.delete(line.text)
  }
}

function keysOf(tickets: readonly Ticket[]): [string, string] {
  return [textArray(tickets.map((ticket) => ticket.text)), plainArray(tickets.map((ticket) => ticket.shared))]
}
