import type {
  Backend,
  BackendEvents,
  Guarantees,
  JoinRequest,
  LeaveRequest,
  LineView,
  RenewRequest,
  Standing,
} from '../../core/backend.js'
import { BackendError } from '../../core/errors.js'
import { KINDS, type LineKey, lineText } from '../../core/line.js'
import { type Call, joinCall, leaveCall, renewCall } from './calls.js'
import { Connections, type Dial, twice } from './connections.js'
import { Inbox } from './inbox.js'
import { ready } from './setup.js'
import { namesPage, viewLines } from './view.js'

export interface LeaseOptions {
  readonly schema: string
  readonly connections: number
  readonly listen: boolean
  readonly migrate: boolean
}

/** How often one client helps to remove what nobody comes back for. */
const TIDY_MS = 10_000
const TIDY_MOST = 5_000

/** The same as settle() in calls.sql, once for a session that is ours alone. */
const SESSION = `SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off;
  SET enable_hashjoin = off; SET enable_mergejoin = off; SET lock_timeout = '250ms';
  SET default_transaction_isolation = 'read committed';
  SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
  SET holdfast.session = 'ready'`

/** While it polls: the first look, what each ticket ahead adds, and the longest pause. */
const POLL_MS = { first: 15, each: 10, most: 250 } as const

/** A waiting ticket of ours: its order saves the server a search, its line is told to look when we were deaf. */
interface Waiting {
  readonly line: LineKey
  readonly order: string
}

/** The line as rows of one table, each ticket with a lease of its own, on the server's clock. */
export class LeaseBackend implements Backend {
  readonly name = 'postgres'
  readonly maxBatch = 250
  readonly #options: LeaseOptions
  readonly #calls: Connections
  /** Renewals have a connection of their own: no join or leave holds them up. */
  readonly #renewals: Connections
  readonly #dial: Dial
  readonly #waiting = new Map<string, Waiting>()
  #events: BackendEvents | undefined
  #inbox: Inbox | undefined
  #push = true
  #named = false
  #tidied = performance.now()

  constructor(dial: Dial, options: LeaseOptions) {
    this.#dial = dial
    this.#options = options
    this.#push = options.listen
    this.#calls = new Connections(dial, options.connections)
    this.#renewals = new Connections(dial, 1)
  }

  get guarantees(): Guarantees {
    return {
      scope: 'network',
      order: 'fifo',
      wake: this.#push ? 'push' : 'poll',
      fence: 'strict',
      lease: 'ticket',
      handover: true,
      atomicGroup: true,
      minHold: 'store',
      kinds: KINDS,
      survives: ['client-crash', 'store-restart'],
      minTtlMs: 100,
      ttlGranularityMs: 1,
      sentence:
        "Holds, places and fences are commits on the disk, so a restart or crash of the server loses none (a release of its last moments that nobody waited for may be forgotten: the lock is then free when its lease ends); a failover to a replica that lags may lose the last commits, holds and fences with them, unless replication is synchronous. A forward step of the server's clock by d shortens every lease by d.",
    }
  }

  async open(events: BackendEvents): Promise<void> {
    this.#events = events
    const session = await ready(this.#dial, this.#options)
    if (this.#options.listen) {
      const inbox = new Inbox(
        this.#dial,
        (payload) => this.#heard(payload),
        () => this.#lookAll(),
      )
      this.#push = await inbox.open()
      if (this.#push) this.#inbox = inbox
    }
    if (session) {
      this.#named = true
      this.#calls.greeting = this.#renewals.greeting = SESSION
    }
  }

  async join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    const words = await this.#call(
      this.#calls,
      'a join',
      joinCall(this.#options.schema, requests, this.#inbox?.channel ?? ''),
    )
    this.#tidy()
    return requests.map((request, i) => this.#standing(request, words[i] ?? '', request.ttlMs, request.waitTtlMs))
  }

  async renew(tickets: readonly RenewRequest[]): Promise<Standing[]> {
    const refs = tickets.map((ticket) => ({ ...ticket, order: ticket.order ?? this.#waiting.get(ticket.id)?.order }))
    const call = renewCall(this.#options.schema, refs, this.#inbox?.channel ?? '')
    // A renewal may be done twice. A join or release that broke is core's to judge: its outcome is unknown.
    const words = await twice(() => this.#call(this.#renewals, 'a renewal', call))
    return tickets.map((ticket, i) => this.#standing(ticket, words[i] ?? '', ticket.ttlMs, ticket.waitTtlMs))
  }

  async leave(tickets: readonly LeaveRequest[]): Promise<(boolean | BackendError)[]> {
    const refs = tickets.map((ticket) => ({ ...ticket, order: ticket.order ?? this.#waiting.get(ticket.id)?.order }))
    const words = await this.#call(this.#calls, 'a release', leaveCall(this.#options.schema, refs))
    this.#tidy()
    return tickets.map((ticket, i) => {
      if (words[i] === 'f') return stalled(ticket.line)
      this.#waiting.delete(ticket.id)
      return words[i] === 't'
    })
  }

  async view(name: string): Promise<LineView[]> {
    return await viewLines(this.#calls, this.#options.schema, name)
  }

  async *names(prefix: string): AsyncIterable<string> {
    const seen = new Set<string>()
    for (const kind of KINDS) {
      let after = ''
      for (;;) {
        const page = await namesPage(this.#calls, this.#options.schema, kind, prefix, after)
        for (const name of page) {
          if (!seen.has(name)) yield name
          seen.add(name)
        }
        const last = page.at(-1)
        if (last === undefined) break
        after = last
      }
    }
  }

  async close(): Promise<void> {
    this.#inbox?.close()
    this.#calls.close()
    this.#renewals.close()
    this.#waiting.clear()
    await Promise.resolve()
  }

  async #call(connections: Connections, doing: string, { statement, values }: Call): Promise<string[]> {
    const [answer] = await connections.column(doing, statement, values, this.#named)
    return answer?.split(' ') ?? []
  }

  #standing(
    ticket: { readonly id: string; readonly line: LineKey },
    word: string,
    ttlMs: number,
    waitTtlMs: number,
  ): Standing {
    switch (word[0] ?? '') {
      case 'g':
        this.#waiting.delete(ticket.id)
        return { state: 'granted', order: BigInt(word.slice(1)), ttlMs }
      case 'w': {
        const [order = '', ahead = '0', look = '1000'] = word.slice(1).split(',')
        this.#waiting.set(ticket.id, { line: ticket.line, order })
        return { state: 'waiting', ahead: Number(ahead), ttlMs: waitTtlMs, lookAgainMs: this.#lookAgain(ahead, look) }
      }
      case 'r':
        return { state: 'refused' }
      case 'x':
        this.#waiting.delete(ticket.id)
        return { state: 'gone' }
      default:
        return { state: 'failed', error: stalled(ticket.line) }
    }
  }

  #lookAgain(ahead: string, look: string): number {
    if (this.#push) return Number(look)
    return Math.min(Number(look), POLL_MS.first + POLL_MS.each * Number(ahead), POLL_MS.most)
  }

  /** A message is 'gID ORDER' (granted) or 'xID' (evicted, or taken over by another client). */
  #heard(payload: string): void {
    const [id = '', order = ''] = payload.slice(1).split(' ')
    if (payload.startsWith('g') && /^\d+$/.test(order)) this.#events?.granted(id, BigInt(order))
    else if (payload.startsWith('x')) this.#events?.lost([id])
  }

  #lookAll(): void {
    const lines = new Map([...this.#waiting.values()].map(({ line }) => [lineText(line), line]))
    for (const line of lines.values()) this.#events?.moved(line)
  }

  /** In the background: it answers nobody, and a failure is met again by the next call that matters. */
  #tidy(): void {
    if (performance.now() - this.#tidied < TIDY_MS) return
    this.#tidied = performance.now()
    const text = `SELECT "${this.#options.schema}".tidy($1)`
    this.#calls.run('a tidy-up', { text, values: [TIDY_MOST] }).catch(() => undefined)
  }
}

function stalled(line: LineKey): BackendError {
  return new BackendError(
    `PostgreSQL: the line '${line.name}' is locked by another transaction that does not end; see pg_locks for who.`,
    { retryable: true },
  )
}
