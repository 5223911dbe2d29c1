import type { Connection } from 'mysql2/promise'
import type {
  Backend,
  BackendEvents,
  Guarantees,
  JoinRequest,
  LeaveRequest,
  LineView,
  RenewRequest,
  Standing,
} from '../../../core/backend.js'
import { BackendError } from '../../../core/errors.js'
import { Connections } from '../connections.js'
import { string } from '../rows.js'
import { ensureSchema } from '../schema.js'
import { checkServer } from '../server.js'
import { lender } from '../source.js'
import { lineValue } from '../sql-text.js'
import { storeError } from '../store-error.js'
import { type Tables, tablesOf } from '../tables.js'
import { Doors } from './doors.js'
import { Draw } from './draw.js'
import { evictElsewhere } from './evict.js'
import { NotesTidy } from './notes-tidy.js'
import { Register } from './register.js'
import type { Session } from './session.js'
import { Sessions } from './sessions.js'
import { Tombstones } from './tombstones.js'

/** The server's queue tells; a renewal is only the second way to learn. */
const LOOK_AGAIN_MS = 60_000

export const SESSION_GUARANTEES: Guarantees = {
  scope: 'network',
  order: 'none',
  wake: 'push',
  fence: 'strict',
  lease: 'session',
  handover: false,
  atomicGroup: false,
  minHold: 'process',
  kinds: ['mutex'],
  survives: ['client-crash'],
  minTtlMs: 1_000,
  ttlGranularityMs: 1_000,
  sentence:
    'A hold lasts as long as its connection: when the connection or the server goes, every hold is lost at once, and another may have it before a holder that is cut off knows. The processes are served by the server’s queue, the waiters of one process first come, first served. No step of a clock matters.',
}

export interface SessionBackendOptions {
  readonly prefix: string
  readonly connections: number
}

/** The port over GET_LOCK: the server's own locks, each held by a connection of ours. */
export class SessionBackend implements Backend {
  readonly name: string = 'mysql'
  readonly guarantees: Guarantees = SESSION_GUARANTEES
  readonly maxBatch: number = 128
  readonly #prefix: string
  readonly #tables: Tables
  readonly #notes: Connections
  readonly #sessions: Sessions
  readonly #register: Register
  readonly #tombstones = new Tombstones()
  #mariadb = false
  #draw!: Draw
  #doors!: Doors
  #events!: BackendEvents
  #tidy!: NotesTidy

  constructor(connect: () => Promise<Connection>, options: SessionBackendOptions) {
    this.#prefix = options.prefix
    this.#tables = tablesOf(options.prefix)
    this.#notes = new Connections(lender(connect), 1)
    this.#sessions = new Sessions(
      connect,
      options.connections,
      (session) => this.#prepare(session),
      (session) => this.#ended(session),
    )
    this.#register = new Register(this.#notes, this.#tables, (ids) => void this.#evicted(ids))
  }

  async open(events: BackendEvents): Promise<void> {
    this.#events = events
    this.#sessions.open()
    this.#notes.open()
    try {
      const { mariadb } = await checkServer(this.#notes)
      await ensureSchema(this.#notes, this.#prefix)
      const [rows] = await this.#notes.run('SELECT DATABASE()', 'opening')
      this.#mariadb = mariadb
      this.#draw = new Draw(this.#notes, this.#tables, mariadb)
      this.#doors = new Doors(this.#sessions, {
        draw: this.#draw,
        realm: `${string(rows?.[0]?.[0])}/${this.#prefix}`,
        granted: (ticket) => {
          this.#register.put(ticket)
          this.#events.granted(ticket.request.id, ticket.order!)
        },
      })
      await this.#sessions.desk()
    } catch (error) {
      this.#sessions.close()
      this.#notes.close()
      throw error
    }
    this.#tidy = new NotesTidy(this.#notes, this.#tables)
    this.#tidy.start()
  }

  async join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    const known = requests.map((request) => this.#known(request))
    const fresh = requests.filter((_, i) => known[i] === undefined)
    if (fresh.length > 0) await this.#doors.enter(fresh)
    return requests.map((request, i) => {
      if (known[i] !== undefined) return known[i]
      const ticket = this.#doors.find(request.id)
      if (ticket === undefined) return this.#notFound(request)
      this.#register.put(ticket)
      return this.#standing(request)
    })
  }

  #notFound({ id }: JoinRequest): Standing {
    if (this.#tombstones.has(id)) return { state: 'gone' }
    return this.#doors.isUnsure(id) ? unsure() : { state: 'refused' }
  }

  async renew(requests: readonly RenewRequest[]): Promise<Standing[]> {
    const failed = new Map<Session, BackendError>()
    const sessions = new Map<Session, number>()
    const waiting = requests
      .flatMap(({ id }) => this.#doors.find(id) ?? [])
      .filter(({ session }) => session === undefined)
    // A look is a hint: what fails there is said by the waiting itself.
    await Promise.all(waiting.map((ticket) => this.#doors.look(ticket).catch(() => undefined)))
    for (const { id, handle, ttlMs } of requests) {
      const ticket = this.#doors.find(id)
      const session = ticket?.session
      if (ticket === undefined || handle !== id) continue
      ticket.ttlMs = ttlMs
      if (session !== undefined) sessions.set(session, Math.max(ttlMs, sessions.get(session) ?? 0))
    }
    await Promise.all(
      [...sessions].map(async ([session, ttlMs]) => {
        try {
          await session.run(session.keepSql(ttlMs) ?? 'DO 0', 'a heartbeat')
        } catch (error) {
          const failure = storeError(error, 'a heartbeat')
          failed.set(
            session,
            failure instanceof BackendError
              ? failure
              : new BackendError(failure.message, { retryable: true, cause: failure }),
          )
        }
      }),
    )
    return requests.map((request) => {
      if (request.handle !== request.id) return { state: 'gone' }
      const session = this.#doors.find(request.id)?.session
      const error = session === undefined ? undefined : failed.get(session)
      return error === undefined ? this.#standing(request) : { state: 'failed', error }
    })
  }

  async leave(requests: readonly LeaveRequest[]): Promise<(boolean | BackendError)[]> {
    for (const { id, tombstoneMs } of requests) {
      if (tombstoneMs > 0) this.#tombstones.put(id, tombstoneMs)
      this.#doors.forgetTry(id)
    }
    const ours = requests.flatMap(({ id, handle }) => {
      const ticket = this.#doors.find(id)
      return ticket === undefined || (handle !== undefined && handle !== id) ? [] : [ticket]
    })
    for (const { request } of ours) this.#register.drop(request.id)
    const left = await this.#doors.leave(ours)
    const answers = new Map(ours.map(({ request }, i) => [request.id, left[i]!]))
    const evicted = requests
      .filter(({ id, handle }) => handle === undefined && answers.get(id) === true)
      .map(({ id }) => id)
    if (evicted.length > 0) this.#events.lost(evicted)
    return await Promise.all(
      requests.map(
        async ({ id, handle }) =>
          answers.get(id) ?? (handle === undefined ? await evictElsewhere(this.#register, this.#notes, id) : false),
      ),
    )
  }

  view(name: string): Promise<LineView[]> {
    return this.#register.view(name, this.#doors.lockOf(lineValue({ kind: 'mutex', name })))
  }

  names(prefix: string): AsyncIterable<string> {
    return this.#register.names(prefix)
  }

  async close(): Promise<void> {
    this.#tidy?.close()
    await this.#register.close()
    this.#doors?.close()
    this.#sessions.close()
    this.#notes.close()
  }

  /** What can be said before the server is asked. */
  #known(request: JoinRequest): Standing | undefined {
    if (this.#tombstones.has(request.id)) return { state: 'gone' }
    if (request.line.kind !== 'mutex') return refusal('GET_LOCK has neither counts nor shared locks')
    if (request.takeover) return refusal("a connection's lock cannot be taken over by another")
    return this.#doors.find(request.id) === undefined ? undefined : this.#standing(request)
  }

  #standing({ id, ttlMs, waitTtlMs }: { id: string; ttlMs: number; waitTtlMs: number }): Standing {
    const ticket = this.#doors.find(id)
    if (ticket === undefined) return { state: 'gone' }
    if (ticket.order !== undefined) return { state: 'granted', order: ticket.order, ttlMs }
    return {
      state: 'waiting',
      ahead: ticket.line.queue.indexOf(ticket) + 1,
      ttlMs: waitTtlMs,
      lookAgainMs: LOOK_AGAIN_MS,
    }
  }

  async #prepare(session: Session): Promise<void> {
    // No limit of the server's on statements may end a wait.
    const limit = this.#mariadb ? 'max_statement_time' : 'max_execution_time'
    await session.run(`SET SESSION ${limit} = 0`, 'setting up a session')
    await this.#draw.prepare(session)
  }

  #ended(session: Session): void {
    const lost = this.#doors?.ended(session) ?? []
    for (const id of lost) this.#register.drop(id)
    if (lost.length > 0) this.#events.lost(lost)
  }

  /** Somebody evicted these tickets of ours: only their own session can let go. */
  async #evicted(ids: readonly string[]): Promise<void> {
    const tickets = ids.flatMap((id) => this.#doors.find(id) ?? [])
    for (const id of ids) this.#register.drop(id)
    if (tickets.length === 0) return
    this.#events.lost(tickets.map(({ request }) => request.id))
    await this.#doors.leave(tickets)
  }
}

function refusal(why: string): Standing {
  return {
    state: 'failed',
    error: new BackendError(`MySQL in session mode: ${why}. Use lease mode.`, { retryable: false }),
  }
}

/** Neither yes nor no: core asks again, and says so in the end. */
function unsure(): Standing {
  const error = new BackendError(
    'MySQL in session mode: the lock is taken, perhaps by our own try before, whose session broke.',
    { retryable: true },
  )
  return { state: 'failed', error }
}
