import type { Draw } from './draw.js'
import { unlock, waitForLock } from './locks.js'
import type { Session } from './session.js'
import type { Sessions } from './sessions.js'
import type { LocalLine, SessionTicket } from './ticket.js'

/** Lines that found no session to wait with are tried this often. */
const SHORT_POLL_MS = 20
/** A wait that failed is begun again after this. */
const RETRY_MS = 100

/** What the queue says when the server has answered. */
interface Door {
  /** The first of the line's waiters has its lock. */
  admit(ticket: SessionTicket, session: Session, order: bigint): void
  /** Tries locks on the desk, of lines that are marked as being tried. When that fails, they still are. */
  tryNow(tickets: readonly SessionTicket[]): Promise<void>
  /** A ticket that had waited holds now. */
  granted(ticket: SessionTicket): void
  /** Whether it has not left meanwhile. */
  stands(ticket: SessionTicket): boolean
  /** The line may have nobody left. */
  settled(line: LocalLine): void
}

/** Our part of the server's queue: for each line with waiters one session, as far as there are any, for the first of them. */
export class Queue {
  readonly #sessions: Sessions
  readonly #draw: Draw
  readonly #door: Door
  /** Lines with waiters and no session that waits for them. */
  readonly #short = new Set<LocalLine>()
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(sessions: Sessions, draw: Draw, door: Door) {
    this.#sessions = sessions
    this.#draw = draw
    this.#door = door
  }

  /** Sees to it that somebody stands in the server's queue for the first of this line's waiters. */
  pump(line: LocalLine): void {
    if (this.#closed || line.waiter !== undefined || line.trying !== undefined || line.queue.length === 0) return
    if (this.#short.has(line)) return
    this.#short.add(line)
    void this.#serve(line)
  }

  /** Nobody of ours waits any more, so nobody must stand in the server's queue: it could be given the lock. */
  callOff(line: LocalLine): void {
    const { waiter } = line
    if (waiter === undefined) return
    this.#sessions.desk().then(
      (desk) =>
        line.queue.length === 0 && line.waiter === waiter
          ? desk.run(`KILL ${waiter.id}`, 'ending a wait').catch(() => waiter.end())
          : undefined,
      () => waiter.end(),
    )
  }

  /** A session may be free again: for the first line that is short of one. */
  serveShort(): void {
    const [first] = this.#short
    if (first !== undefined) void this.#serve(first)
  }

  /** Without a session that waits for it, the first of a line asks for the lock itself; else it goes on waiting. */
  async tryFirst(tickets: readonly SessionTicket[]): Promise<void> {
    for (const ticket of tickets) {
      ticket.line.queue.shift()
      ticket.line.trying = ticket
      this.#short.delete(ticket.line)
    }
    try {
      await this.#door.tryNow(tickets)
    } catch {
      for (const ticket of tickets) this.#putBack(ticket)
    }
    for (const ticket of tickets) if (ticket.order !== undefined) this.#door.granted(ticket)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  async #serve(line: LocalLine): Promise<void> {
    let session: Session | undefined
    try {
      session = await this.#sessions.take()
    } catch {
      // No connection to be had: the line stays among the short ones, which are tried again.
    }
    if (session === undefined) return this.#schedule()
    this.#short.delete(line)
    if (line.queue.length === 0 || line.waiter !== undefined) {
      this.#sessions.giveBack(session)
      return
    }
    line.waiter = session
    line.waiting = this.#wait(line, session)
    await line.waiting
  }

  async #wait(line: LocalLine, session: Session): Promise<void> {
    const ttlMs = line.queue[0]?.ttlMs ?? 0
    let order: bigint | undefined
    let failed = false
    try {
      order = await waitForLock(session, this.#draw, line, ttlMs)
    } catch {
      failed = true
      session.end()
    }
    delete line.waiter
    delete line.waiting
    const ticket = line.queue.shift()
    if (order !== undefined && ticket !== undefined) {
      this.#door.admit(ticket, session, order)
      const keep = session.keepSql(ticket.ttlMs)
      if (keep !== undefined) session.run(keep, 'setting up a session').catch(() => session.end())
      this.#door.granted(ticket)
    } else {
      if (ticket !== undefined) line.queue.unshift(ticket)
      if (order !== undefined) await unlock(session, [line]).catch(() => session.end())
      this.#sessions.giveBack(session)
    }
    if (failed) setTimeout(() => this.pump(line), RETRY_MS).unref()
    else this.pump(line)
    this.#door.settled(line)
    this.serveShort()
  }

  #schedule(): void {
    if (this.#closed) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      void this.#tryShort()
    }, SHORT_POLL_MS).unref()
  }

  /** Without a session to wait with, a lock is asked for now and then, all such in one packet. */
  async #tryShort(): Promise<void> {
    const tickets: SessionTicket[] = []
    for (const line of [...this.#short]) {
      const ticket = line.queue[0]
      if (ticket === undefined) this.#short.delete(line)
      else if (line.holder === undefined && line.trying === undefined && line.waiter === undefined) tickets.push(ticket)
    }
    try {
      if (tickets.length > 0) await this.tryFirst(tickets)
    } finally {
      if (this.#short.size > 0) this.#schedule()
    }
  }

  /** Its try failed, so it goes on waiting; unless it left meanwhile: nobody would let go of what it is given. */
  #putBack(ticket: SessionTicket): void {
    const { line } = ticket
    delete line.trying
    if (this.#door.stands(ticket)) line.queue.unshift(ticket)
    if (line.queue.length > 0) {
      this.#short.add(line)
      this.#schedule()
    } else this.#door.settled(line)
  }
}
