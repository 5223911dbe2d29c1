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
import { BackendError, UnsupportedError } from '../../../core/errors.js'
import { plainArray, textArray } from '../arrays.js'
import { Connections, type Dial } from '../connections.js'
import { failure } from '../failure.js'
import { Inbox, isOneSession } from '../inbox.js'
import { ready } from '../setup.js'
import { Doorkeeper } from './doorkeeper.js'
import { evictElsewhere } from './evict.js'
import type { Post } from './post.js'
import { beat, Posts } from './posts.js'
import { Register } from './register.js'
import { UNLOCK, UNLOCK_ONE } from './sql.js'
import { type Ticket, ticketOf } from './ticket.js'
import { Tombstones } from './tombstones.js'

export interface SessionOptions {
  readonly schema: string
  readonly migrate: boolean
  readonly connections: number
}

/** The server's own advisory locks: a hold lasts as long as the session that has it, and the server's queue waits. */
export class SessionBackend implements Backend {
  readonly name = 'postgres'
  readonly maxBatch = 250
  readonly guarantees: Guarantees = {
    scope: 'network',
    order: 'none',
    wake: 'push',
    fence: 'strict',
    lease: 'session',
    handover: false,
    atomicGroup: false,
    minHold: 'process',
    kinds: ['mutex', 'rw'],
    survives: ['client-crash'],
    minTtlMs: 500,
    ttlGranularityMs: 1,
    sentence:
      'A hold lasts as long as its session: when the connection, the server or the primary goes, every hold is lost at once, and another may have it before a holder that is cut off knows. Processes are served in turn, their own waiters first come, first served. No clock of the server is used for longer than one ttl, and a step of it changes nothing.',
  }
  readonly #dial: Dial
  readonly #options: SessionOptions
  readonly #posts: Posts
  readonly #notes: Connections
  readonly #inbox: Inbox
  readonly #register: Register
  readonly #doors: Doorkeeper
  readonly #tombstones = new Tombstones()
  #events: BackendEvents | undefined

  constructor(dial: Dial, options: SessionOptions) {
    this.#dial = dial
    this.#options = options
    this.#notes = new Connections(dial, 1)
    this.#notes.greeting = 'SET synchronous_commit = off'
    this.#inbox = new Inbox(
      dial,
      (payload) => void this.#heard(payload),
      () => undefined,
      Register.channel(options.schema),
    )
    this.#posts = new Posts(dial, this.#inbox.channel, options.connections, (post) => this.#ended(post))
    this.#register = new Register(this.#notes, options.schema, this.#inbox.channel)
    this.#doors = new Doorkeeper(this.#posts, options.schema, (ticket, post, order) =>
      this.#granted(ticket, post, order),
    )
  }

  async open(events: BackendEvents): Promise<void> {
    this.#events = events
    await ready(this.#dial, this.#options)
    const desk = await this.#posts.desk()
    try {
      if (!(await isOneSession(desk.client, this.#dial))) throw pooled()
      await this.#inbox.open()
    } catch (cause) {
      desk.end()
      throw cause instanceof UnsupportedError ? cause : failure('opening', cause)
    }
  }

  async join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    const desk = await this.#posts.desk()
    let ttlMs = 0
    for (const request of requests) ttlMs = Math.max(ttlMs, request.ttlMs)
    const coming = { id: '', ttlMs }
    desk.expects.add(coming)
    try {
      if (!desk.keepsFor(coming)) await desk.keep()
      return await this.#enter(requests, desk)
    } finally {
      desk.expects.delete(coming)
    }
  }

  async #enter(requests: readonly JoinRequest[], desk: Post): Promise<Standing[]> {
    this.#register.pid = desk.pid
    // No waiting from here to `enter`, which notes every ticket: else a leave that comes meanwhile would miss it.
    const fresh: Ticket[] = []
    const standings = requests.map((request) => {
      const known = this.#knownStanding(request)
      if (known === undefined) fresh.push(ticketOf(request))
      return known
    })
    await this.#doors.enter(fresh)
    for (const ticket of fresh) if (ticket.waits && this.#doors.find(ticket.id) === ticket) this.#register.put(ticket)
    return requests.map((request, i) => standings[i] ?? this.#standing(request))
  }

  async renew(tickets: readonly RenewRequest[]): Promise<Standing[]> {
    const posts = new Set<Post>()
    for (const { id, handle, ttlMs } of tickets) {
      const ticket = this.#doors.find(id)
      if (ticket === undefined || handle !== id) continue
      ticket.ttlMs = ttlMs
      if (ticket.post === undefined) await this.#doors.look(ticket)
      if (ticket.post !== undefined) posts.add(ticket.post)
    }
    const failed = await beat(posts)
    return tickets.map((request) => {
      if (request.handle !== request.id) return { state: 'gone' }
      const post = this.#doors.find(request.id)?.post
      const error = post === undefined ? undefined : failed.get(post)
      return error === undefined ? this.#standing(request) : { state: 'failed', error }
    })
  }

  async leave(requests: readonly LeaveRequest[]): Promise<(boolean | BackendError)[]> {
    const holding = new Map<Post, Ticket[]>()
    const answers = new Map<string, boolean | BackendError>()
    for (const { id, handle, tombstoneMs } of requests) {
      if (tombstoneMs > 0) this.#tombstones.put(id, tombstoneMs)
      this.#doors.forgetTry(id)
      const ticket = this.#doors.find(id)
      if (ticket === undefined) {
        if (handle === undefined) answers.set(id, await evictElsewhere(this.#register, this.#notes, id))
        continue
      }
      if (handle !== undefined && handle !== id) continue
      this.#register.drop(id)
      answers.set(id, true)
      if (ticket.post === undefined) {
        this.#doors.giveUp(ticket)
        continue
      }
      const same = holding.get(ticket.post)
      if (same === undefined) holding.set(ticket.post, [ticket])
      else same.push(ticket)
      if (handle === undefined) this.#events?.lost([id])
    }
    await Promise.all(
      [...holding].map(async ([post, tickets]) => {
        if (await this.#unlock(post, tickets)) return
        for (const { id } of tickets) answers.set(id, false)
      }),
    )
    return requests.map(({ id }) => answers.get(id) ?? false)
  }

  async view(name: string): Promise<LineView[]> {
    return await this.#register.view(name)
  }

  names(prefix: string): AsyncIterable<string> {
    return this.#register.names(prefix)
  }

  async close(): Promise<void> {
    const noted = this.#register.close()
    this.#inbox.close()
    this.#doors.close()
    this.#posts.close()
    await noted
    this.#notes.close()
  }

  /** Says no before anything is asked of the server, or what is known already. */
  #knownStanding({ id, line, takeover }: JoinRequest): Standing | undefined {
    if (this.#tombstones.has(id)) return { state: 'gone' }
    if (line.kind === 'semaphore') return refusal('advisory locks have no count: use lease mode for a semaphore')
    if (takeover) return refusal("a session's lock cannot be taken over: use lease mode for takeover")
    const ticket = this.#doors.find(id)
    return ticket === undefined ? undefined : this.#standing(ticket)
  }

  #standing({ id, ttlMs, waitTtlMs }: { id: string; ttlMs: number; waitTtlMs?: number }): Standing {
    const ticket = this.#doors.find(id)
    if (ticket === undefined) {
      if (!this.#doors.wasRefused(id)) return { state: 'gone' }
      return this.#doors.isUnsure(id) ? unsure() : { state: 'refused' }
    }
    if (ticket.order !== undefined) return { state: 'granted', order: ticket.order, ttlMs }
    return { state: 'waiting', ttlMs: waitTtlMs ?? ttlMs, ...this.#doors.outlook(ticket) }
  }

  #granted(ticket: Ticket, post: Post, order: bigint): void {
    ticket.post = post
    ticket.order = order
    post.holds.set(ticket.id, ticket)
    post.settle(ticket)
    this.#register.put(ticket)
    if (ticket.waits) this.#events?.granted(ticket.id, order)
  }

  /** False: the session was gone, and the locks with it. */
  async #unlock(post: Post, tickets: readonly Ticket[]): Promise<boolean> {
    for (const ticket of tickets) post.holds.delete(ticket.id)
    try {
      const [only] = tickets
      if (tickets.length === 1 && only !== undefined) {
        await post.run(UNLOCK_ONE, [only.text, only.shared])
      } else {
        const texts = textArray(tickets.map((ticket) => ticket.text))
        await post.run(UNLOCK, [texts, plainArray(tickets.map((ticket) => ticket.shared))])
      }
      return true
    } catch {
      // Whatever it still holds goes with the session.
      post.end()
      return false
    } finally {
      for (const ticket of tickets) this.#doors.depart(ticket)
    }
  }

  #ended(post: Post): void {
    const ids = [...post.holds.keys()]
    post.holds.clear()
    for (const id of ids) {
      const ticket = this.#doors.find(id)
      if (ticket !== undefined) this.#doors.depart(ticket)
      this.#register.drop(id)
    }
    if (ids.length > 0) this.#events?.lost(ids)
  }

  /** 'xID': somebody evicted it. We let go, since only its own session can. */
  async #heard(payload: string): Promise<void> {
    if (!payload.startsWith('x')) return await this.#register.heard(payload).catch(() => undefined)
    const ticket = this.#doors.find(payload.slice(1))
    if (ticket === undefined) return
    this.#register.drop(ticket.id)
    this.#events?.lost([ticket.id])
    if (ticket.post === undefined) this.#doors.giveUp(ticket)
    else await this.#unlock(ticket.post, [ticket])
  }
}

function refusal(why: string): Standing {
  const error = new BackendError(`PostgreSQL in session mode: ${why}.`, { retryable: false })
  return { state: 'failed', error }
}

/** Neither yes nor no: core asks again, and says so in the end. */
function unsure(): Standing {
  const error = new BackendError(
    'PostgreSQL in session mode: the lock is taken, perhaps by our own try before, whose session broke.',
    { retryable: true },
  )
  return { state: 'failed', error }
}

function pooled(): UnsupportedError {
  return new UnsupportedError(
    'PostgreSQL: session mode needs sessions of its own, and this server is behind a pooler that hands them out by transaction (PgBouncer?). Use lease mode (?mode=lease), or connect to the server itself.',
  )
}
