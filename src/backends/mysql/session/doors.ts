import type { JoinRequest } from '../../../core/backend.js'
import { number } from '../rows.js'
import { lineValue } from '../sql-text.js'
import type { Draw } from './draw.js'
import { tryLocks, unlock, waitForLock } from './locks.js'
import type { Session } from './session.js'
import type { Sessions } from './sessions.js'
import { isIdle, type LocalLine, localLine, type SessionTicket } from './ticket.js'

/** Lines that found no session to wait with are tried this often. */
const SHORT_POLL_MS = 20
/** A wait that failed is begun again after this. */
const RETRY_MS = 100
/** Who looks whether it was served waits this long for an answer that is on its way. */
const LOOK_MS = 1_000

export interface DoorsOptions {
  readonly draw: Draw
  readonly realm: string
  /** A ticket that had waited holds now. */
  readonly granted: (ticket: SessionTicket) => void
}

/**
 * The local half of every lock. A process asks the server for one lock once at a time: the server would give it
 * to the same session twice. The others of this process wait here, first come, first served.
 */
export class Doors {
  readonly #sessions: Sessions
  readonly #options: DoorsOptions
  readonly #lines = new Map<string, LocalLine>()
  readonly #tickets = new Map<string, SessionTicket>()
  /** Lines with waiters and no session that waits for them. */
  readonly #short = new Set<LocalLine>()
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(sessions: Sessions, options: DoorsOptions) {
    this.#sessions = sessions
    this.#options = options
  }

  get tickets(): Iterable<SessionTicket> {
    return this.#tickets.values()
  }

  find(id: string): SessionTicket | undefined {
    return this.#tickets.get(id)
  }

  /** The name of a line's lock on the server. */
  lockOf(value: string): string {
    return this.#lines.get(value)?.lock ?? localLine(value, this.#options.realm).lock
  }

  /** Tries, in one packet, the locks that nobody here has to do with; lines up the rest. Who may not wait and got nothing is not found afterwards. */
  async enter(requests: readonly JoinRequest[]): Promise<void> {
    const tries: SessionTicket[] = []
    for (const request of requests) {
      const line = this.#line(lineValue(request.line))
      const ticket: SessionTicket = { request, line, joinedAt: performance.now(), ttlMs: request.ttlMs }
      if (isIdle(line)) {
        line.trying = ticket
        this.#tickets.set(request.id, ticket)
        tries.push(ticket)
      } else if (request.wait) {
        this.#tickets.set(request.id, ticket)
        line.queue.push(ticket)
        this.#pump(line)
      }
    }
    if (tries.length === 0) return
    try {
      await this.#try(tries)
    } catch (error) {
      for (const ticket of tries) {
        delete ticket.line.trying
        this.forget(ticket)
      }
      throw error
    }
  }

  /** Whether the first of a line's waiters came through without our having heard of it yet. */
  async look(ticket: SessionTicket): Promise<void> {
    const { line } = ticket
    if (line.queue[0] !== ticket || line.holder !== undefined || line.trying !== undefined) return
    const { waiter, waiting } = line
    if (waiter === undefined) {
      line.queue.shift()
      line.trying = ticket
      return await this.#tryQueued([ticket])
    }
    const desk = await this.#sessions.desk()
    const [rows] = await desk.run(`SELECT IS_USED_LOCK('${line.lock}')`, 'looking at a lock')
    const used = rows?.[0]?.[0] ?? null
    // Ours, or free and so about to be: the answer is on its way.
    if (used === null || number(used) === waiter.id) await Promise.race([waiting, pause(LOOK_MS)])
  }

  /** A ticket leaves: out of the queue, or with its lock. Gives whether it stood. */
  async leave(tickets: readonly SessionTicket[]): Promise<boolean[]> {
    const bySession = new Map<Session, SessionTicket[]>()
    for (const ticket of tickets) {
      if (ticket.session === undefined) {
        this.forget(ticket)
        if (ticket.line.queue.length === 0) this.#callOff(ticket.line)
        continue
      }
      const same = bySession.get(ticket.session)
      if (same === undefined) bySession.set(ticket.session, [ticket])
      else same.push(ticket)
    }
    const lost = new Set<SessionTicket>()
    await Promise.all(
      [...bySession].map(async ([session, same]) => {
        try {
          const had = await unlock(
            session,
            same.map(({ line }) => line),
          )
          for (const [i, ticket] of same.entries()) if (!had[i]) lost.add(ticket)
        } catch {
          // Whatever it still had goes with the session.
          session.end()
          for (const ticket of same) lost.add(ticket)
        }
        for (const ticket of same) this.forget(ticket)
        if (session.holds.size === 0) this.#sessions.giveBack(session)
      }),
    )
    this.#serveShort()
    return tickets.map((ticket) => !lost.has(ticket))
  }

  /** A ticket is no more. */
  forget(ticket: SessionTicket): void {
    const { line, request } = ticket
    this.#tickets.delete(request.id)
    ticket.session?.holds.delete(request.id)
    if (line.holder === ticket) delete line.holder
    const place = line.queue.indexOf(ticket)
    if (place !== -1) line.queue.splice(place, 1)
    if (isIdle(line)) this.#lines.delete(line.value)
    else this.#pump(line)
  }

  /** A session ended, and its locks with it; gives the tickets that are lost. */
  ended(session: Session): string[] {
    const lost = [...session.holds.values()]
    session.holds.clear()
    for (const ticket of lost) this.forget(ticket)
    return lost.map(({ request }) => request.id)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  /** When this fails, the lines are still marked as being tried: what becomes of the tickets is the caller's to say. */
  async #try(tries: readonly SessionTicket[]): Promise<void> {
    let ttlMs = 0
    for (const ticket of tries) ttlMs = Math.max(ttlMs, ticket.ttlMs)
    const desk = await this.#sessions.desk()
    const orders = await tryLocks(
      desk,
      this.#options.draw,
      tries.map(({ line }) => line),
      ttlMs,
    )
    const unwanted: LocalLine[] = []
    for (const [i, ticket] of tries.entries()) {
      const { line, request } = ticket
      delete line.trying
      const wanted = this.#tickets.get(request.id) === ticket
      const order = orders[i]
      if (order !== undefined && wanted) this.#hold(ticket, desk, order)
      else if (order !== undefined) unwanted.push(line)
      else if (wanted && request.wait) line.queue.unshift(ticket)
      else this.#tickets.delete(request.id)
      if (!line.holder) this.#pump(line)
      if (isIdle(line)) this.#lines.delete(line.value)
    }
    if (unwanted.length > 0) await unlock(desk, unwanted).catch(() => desk.end())
  }

  #line(value: string): LocalLine {
    let line = this.#lines.get(value)
    if (line === undefined) {
      line = localLine(value, this.#options.realm)
      this.#lines.set(value, line)
    }
    return line
  }

  #hold(ticket: SessionTicket, session: Session, order: bigint): void {
    ticket.session = session
    ticket.order = order
    ticket.line.holder = ticket
    session.holds.set(ticket.request.id, ticket)
  }

  /** Sees to it that somebody stands in the server's queue for the first of this line's waiters. */
  #pump(line: LocalLine): void {
    if (this.#closed || line.waiter !== undefined || line.trying !== undefined || line.queue.length === 0) return
    if (this.#short.has(line)) return
    this.#short.add(line)
    void this.#serve(line)
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
    const { draw, granted } = this.#options
    const ttlMs = line.queue[0]?.ttlMs ?? 0
    let order: bigint | undefined
    let failed = false
    try {
      order = await waitForLock(session, draw, line, ttlMs)
    } catch {
      failed = true
      session.end()
    }
    delete line.waiter
    delete line.waiting
    const ticket = line.queue.shift()
    if (order !== undefined && ticket !== undefined) {
      this.#hold(ticket, session, order)
      const keep = session.keepSql(ticket.ttlMs)
      if (keep !== undefined) session.run(keep, 'setting up a session').catch(() => session.end())
      granted(ticket)
    } else {
      if (ticket !== undefined) line.queue.unshift(ticket)
      if (order !== undefined) await unlock(session, [line]).catch(() => session.end())
      this.#sessions.giveBack(session)
    }
    if (failed) setTimeout(() => this.#pump(line), RETRY_MS).unref()
    else this.#pump(line)
    if (isIdle(line)) this.#lines.delete(line.value)
    this.#serveShort()
  }

  /** Nobody of ours waits any more, so nobody must stand in the server's queue: it could be given the lock. */
  #callOff(line: LocalLine): void {
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

  #serveShort(): void {
    const [first] = this.#short
    if (first !== undefined) void this.#serve(first)
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
      else if (line.holder === undefined && line.trying === undefined && line.waiter === undefined) {
        line.queue.shift()
        line.trying = ticket
        tickets.push(ticket)
      }
    }
    try {
      if (tickets.length > 0) await this.#tryQueued(tickets)
    } finally {
      if (this.#short.size > 0) this.#schedule()
    }
  }

  async #tryQueued(tickets: readonly SessionTicket[]): Promise<void> {
    for (const { line } of tickets) this.#short.delete(line)
    try {
      await this.#try(tickets)
    } catch {
      for (const ticket of tickets) this.#putBack(ticket)
    }
    for (const ticket of tickets) if (ticket.order !== undefined) this.#options.granted(ticket)
  }

  /** Its try failed, so it goes on waiting; unless it left meanwhile: nobody would let go of what it is given. */
  #putBack(ticket: SessionTicket): void {
    const { line, request } = ticket
    delete line.trying
    if (this.#tickets.get(request.id) === ticket) line.queue.unshift(ticket)
    if (line.queue.length > 0) {
      this.#short.add(line)
      this.#schedule()
    } else if (isIdle(line)) this.#lines.delete(line.value)
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}
