import type { JoinRequest } from '../../../core/backend.js'
import { number } from '../rows.js'
import { lineValue } from '../sql-text.js'
import type { Draw } from './draw.js'
import { tryLocks, unlock } from './locks.js'
import { Queue } from './queue.js'
import type { Session } from './session.js'
import type { Sessions } from './sessions.js'
import { isIdle, type LocalLine, localLine, type SessionTicket } from './ticket.js'

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
  /** Tries that had no answer: the lock may be had by a session of ours that the server does not know to be gone. */
  readonly #unsure = new Set<string>()
  readonly #queue: Queue

  constructor(sessions: Sessions, options: DoorsOptions) {
    this.#sessions = sessions
    this.#options = options
    this.#queue = new Queue(sessions, options.draw, {
      admit: (ticket, session, order) => this.#hold(ticket, session, order),
      tryNow: (tickets) => this.#try(tickets),
      granted: options.granted,
      stands: (ticket) => this.#tickets.get(ticket.request.id) === ticket,
      settled: (line) => this.#forgetIdle(line),
    })
  }

  get tickets(): Iterable<SessionTicket> {
    return this.#tickets.values()
  }

  find(id: string): SessionTicket | undefined {
    return this.#tickets.get(id)
  }

  /** Whether an earlier try of this id had no answer: what refuses it now may be what that one got. */
  isUnsure(id: string): boolean {
    return this.#unsure.has(id)
  }

  /** Nobody asks for it any more. */
  forgetTry(id: string): void {
    if (this.#unsure.size > 0) this.#unsure.delete(id)
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
        this.#queue.pump(line)
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
    if (waiter === undefined) return await this.#queue.tryFirst([ticket])
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
        if (ticket.line.queue.length === 0) this.#queue.callOff(ticket.line)
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
    this.#queue.serveShort()
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
    if (isIdle(line)) this.#forgetIdle(line)
    else this.#queue.pump(line)
  }

  /** A session ended, and its locks with it; gives the tickets that are lost. */
  ended(session: Session): string[] {
    const lost = [...session.holds.values()]
    session.holds.clear()
    for (const ticket of lost) this.forget(ticket)
    return lost.map(({ request }) => request.id)
  }

  close(): void {
    this.#queue.close()
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
    ).catch((error: unknown) => {
      if (desk.over) for (const { request } of tries) if (!request.wait) this.#unsure.add(request.id)
      throw error
    })
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
      if (!line.holder) this.#queue.pump(line)
      this.#forgetIdle(line)
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

  // Another may have its name by now: forgotten, that one's lock could be taken twice by one session.
  #forgetIdle(line: LocalLine): void {
    if (isIdle(line) && this.#lines.get(line.value) === line) this.#lines.delete(line.value)
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}
