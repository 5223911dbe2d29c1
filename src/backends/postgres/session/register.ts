import type { Holder, LineView, TicketView } from '../../../core/backend.js'
import { KINDS } from '../../../core/line.js'
import { plainArray, textArray } from '../arrays.js'
import type { Connections } from '../connections.js'
import type { Ticket } from './ticket.js'

/** Shorter holds are never written down: looking is for people, and people are slower. */
const WRITE_AFTER_MS = 20

/** How long the others have to write down what they have, before somebody looks. */
const ROLL_CALL_MS = 500

/** How long a client that closes waits for its rows to go; who writes later removes what is left. */
const CLOSE_MS = 1_000

/** How often a client that writes removes what dead ones left, and how much at most. */
const TIDY_MS = 60_000
const TIDY_MOST = 500

/** What other processes can see of our tickets. Written a moment later and never waited for: nothing depends on it. */
export class Register {
  readonly #connections: Connections
  readonly #schema: string
  readonly #inbox: string
  readonly #tickets = new Map<string, Ticket>()
  readonly #written = new Set<string>()
  /** What is to be written, and since when. */
  readonly #changed = new Map<string, number>()
  readonly #roll = new Map<string, () => void>()
  #timer: NodeJS.Timeout | undefined
  #closed = false
  #everWrote = false
  #tidied = Number.NEGATIVE_INFINITY

  constructor(connections: Connections, schema: string, inbox: string) {
    this.#connections = connections
    this.#schema = schema
    this.#inbox = inbox
  }

  /** The session that proves that we live. */
  pid = 0

  put(ticket: Ticket): void {
    this.#tickets.set(ticket.id, ticket)
    this.#soon(ticket.id)
  }

  drop(id: string): void {
    if (!this.#tickets.delete(id)) return
    if (this.#written.has(id)) this.#soon(id)
    else this.#changed.delete(id)
  }

  /** Removes our rows; what is being written just now comes before that. */
  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    if (!this.#everWrote) return
    const text = `DELETE FROM "${this.#schema}".session_ticket WHERE inbox = $1`
    const gone = this.#connections.run('a note for others', { text, values: [this.#inbox] }).catch(() => undefined)
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS)
    })
    await Promise.race([gone, late])
    clearTimeout(timer)
  }

  /** The channel on which somebody who looks asks all clients to write down what they have. */
  static channel(schema: string): string {
    return `holdfast_roll_${schema}`
  }

  /** 'cINBOX': somebody looks, so write now and say so. 'aINBOX': a client has written. */
  async heard(payload: string): Promise<void> {
    const from = payload.slice(1)
    if (payload.startsWith('a')) this.#roll.get(from)?.()
    else if (payload.startsWith('c') && from !== this.#inbox) {
      if (this.#changed.size > 0) await this.#write()
      const values = [from, `a${this.#inbox}`]
      await this.#connections.run('an answer', { text: 'SELECT pg_notify($1, $2)', values })
    }
  }

  /** Asks every client that lives, and waits for their answers: what is written then is not older than the question. */
  async rollCall(): Promise<void> {
    const text = `SELECT DISTINCT application_name AS inbox FROM pg_stat_activity
      WHERE application_name LIKE 'holdfast\\_%' AND application_name <> $1 AND datname = current_database()`
    const { rows } = await this.#connections.run('a roll call', { text, values: [this.#inbox] })
    if (rows.length === 0) return
    const all = Promise.all(
      rows.map((row) => new Promise<void>((resolve) => this.#roll.set(row['inbox'] ?? '', resolve))),
    )
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ROLL_CALL_MS)
    })
    const values = [Register.channel(this.#schema), `c${this.#inbox}`]
    await this.#connections.run('a roll call', { text: 'SELECT pg_notify($1, $2)', values })
    await Promise.race([all, late])
    clearTimeout(timer)
  }

  /** Takes a ticket of any process off the register; answers whose it was. */
  async strike(id: string): Promise<{ inbox: string; pid: number; line: string } | undefined> {
    const text = `DELETE FROM "${this.#schema}".session_ticket WHERE id = $1 RETURNING inbox, pid::text, line`
    await this.rollCall()
    const [row] = (await this.#connections.run('an eviction', { text, values: [id] })).rows
    if (row === undefined) return undefined
    return { inbox: row['inbox'] ?? '', pid: Number(row['pid']), line: row['line'] ?? '' }
  }

  /** The tickets of all processes that live, by line. */
  async view(name: string): Promise<LineView[]> {
    await this.rollCall()
    const text = `${this.#live()} AND t.line IN ($1, $2) ORDER BY t.granted DESC, t.ord`
    const lines = ['mutex', 'rw'].map((kind) => `${kind}:${name}`)
    const { rows } = await this.#connections.run('a view', { text, values: lines })
    const views: LineView[] = []
    for (const kind of KINDS) {
      const line = `${kind}:${name}`
      const ours = [...this.#tickets.values()].filter((ticket) => ticket.text === line).map(ownView)
      const others = rows.filter((row) => row['line'] === line && row['inbox'] !== this.#inbox).map(rowView)
      const tickets = [...ours, ...others].sort(holdersFirst)
      if (tickets.length > 0) views.push({ line: { kind, name }, tickets })
    }
    return views
  }

  async *names(prefix: string): AsyncIterable<string> {
    await this.rollCall()
    const { rows } = await this.#connections.run('a listing', { text: this.#live(), values: [] })
    const others = rows.filter((row) => row['inbox'] !== this.#inbox).map((row) => row['line'] ?? '')
    const names = new Set<string>()
    for (const line of [...others, ...[...this.#tickets.values()].map((ticket) => ticket.text)]) {
      names.add(line.slice(line.indexOf(':') + 1))
    }
    for (const name of names) if (name.startsWith(prefix)) yield name
  }

  #live(): string {
    return `SELECT t.line, t.id, t.ord::text, t.granted::text, t.weight::text, t.capacity::text, t.holder, t.inbox,
        (extract(epoch FROM clock_timestamp() - t.joined) * 1000)::bigint::text AS age
      FROM "${this.#schema}".session_ticket t JOIN pg_stat_activity a ON a.pid = t.pid
      WHERE (a.backend_start IS NULL OR a.backend_start <= t.written)`
  }

  #soon(id: string): void {
    this.#changed.set(id, performance.now())
    this.#wind()
  }

  /** What changed just now is left for the next time: most holds are over by then. */
  #wind(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      if (this.#closed) return
      const before = performance.now() - WRITE_AFTER_MS / 2
      void this.#write(before)
      if ([...this.#changed.values()].some((at) => at > before)) this.#wind()
    }, WRITE_AFTER_MS).unref()
  }

  async #write(before: number = Number.POSITIVE_INFINITY): Promise<void> {
    const ids = [...this.#changed].flatMap(([id, at]) => (at <= before ? [id] : []))
    if (ids.length === 0 || this.#closed) return
    this.#everWrote = true
    for (const id of ids) this.#changed.delete(id)
    const here = ids.flatMap((id) => this.#tickets.get(id) ?? [])
    const text = `WITH gone AS (DELETE FROM "${this.#schema}".session_ticket WHERE id = ANY ($1::text[]))
      INSERT INTO "${this.#schema}".session_ticket (id, line, ord, granted, weight, capacity, holder, inbox, pid)
      SELECT q.id, q.line, q.ord, q.granted, q.weight, q.capacity, q.holder, $2, $3
      FROM unnest($4::text[], $5::text[], $6::bigint[], $7::boolean[], $8::bigint[], $9::bigint[], $10::text[])
        q(id, line, ord, granted, weight, capacity, holder)
      ON CONFLICT (id) DO UPDATE SET ord = excluded.ord, granted = excluded.granted, written = clock_timestamp()`
    try {
      await this.#connections.run('a note for others', {
        text,
        values: [
          textArray(ids.filter((id) => !this.#tickets.has(id))),
          this.#inbox,
          this.pid,
          textArray(here.map((ticket) => ticket.id)),
          textArray(here.map((ticket) => ticket.text)),
          plainArray(here.map((ticket) => ticket.order ?? 0)),
          plainArray(here.map((ticket) => ticket.order !== undefined)),
          plainArray(here.map((ticket) => ticket.weight)),
          plainArray(here.map((ticket) => ticket.capacity)),
          textArray(here.map((ticket) => JSON.stringify(ticket.holder))),
        ],
      })
      for (const id of ids) this.#written.delete(id)
      for (const { id } of here) {
        this.#written.add(id)
        // Left while it was being written: what was just written goes again.
        if (!this.#tickets.has(id)) this.#soon(id)
      }
      void this.#tidy()
    } catch {
      // Others see less for a while; the locks themselves are not concerned. Written with the next change.
      for (const id of ids) this.#changed.set(id, performance.now())
      // It may be the answer alone that is missing: then the rows are there, to be removed one day.
      for (const { id } of here) this.#written.add(id)
    }
  }

  /** Removes rows of clients without a session (all have its name): killed, or cut off while they closed. */
  async #tidy(): Promise<void> {
    if (performance.now() - this.#tidied < TIDY_MS) return
    this.#tidied = performance.now()
    const text = `DELETE FROM "${this.#schema}".session_ticket WHERE ctid = ANY (ARRAY(
      SELECT t.ctid FROM "${this.#schema}".session_ticket t
      WHERE t.inbox <> $1 AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.application_name = t.inbox)
      LIMIT ${TIDY_MOST} FOR UPDATE OF t SKIP LOCKED
    ))`
    await this.#connections.run('a tidy-up', { text, values: [this.#inbox] }).catch(() => undefined)
  }
}

function holdersFirst(a: TicketView, b: TicketView): number {
  const rank = (view: TicketView): number => (view.order === 0n ? 1 : 0)
  return rank(a) - rank(b) || (a.order < b.order ? -1 : a.order > b.order ? 1 : (b.ageMs ?? 0) - (a.ageMs ?? 0))
}

function ownView(ticket: Ticket): TicketView {
  const { id, weight, capacity, holder, order = 0n, joined } = ticket
  return { id, order, weight, capacity, holder, left: false, ageMs: Math.round(performance.now() - joined) }
}

function rowView(row: Record<string, string | null>): TicketView {
  return {
    id: row['id'] ?? '',
    order: BigInt(row['ord'] ?? 0),
    weight: Number(row['weight']),
    capacity: Number(row['capacity']),
    holder: JSON.parse(row['holder'] ?? '{}') as Holder,
    left: false,
    ageMs: Number(row['age']),
  }
}
