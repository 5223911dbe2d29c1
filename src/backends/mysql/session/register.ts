import type { LineView, TicketView } from '../../../core/backend.js'
import type { Connections } from '../connections.js'
import { decodeHolder, encodeHolder } from '../holder.js'
import { bigint, flag, number, type Row, string } from '../rows.js'
import { fromNow, integer, lineOf, lineValue, NOW, text, texts } from '../sql-text.js'
import type { Tables } from '../tables.js'
import type { SessionTicket } from './ticket.js'

/** Shorter holds are never written down: looking is for people, and people are slower. */
const WRITE_AFTER_MS = 20
/** Who looks gives the others this long to write down what they have, and looks at a lock that is held this often. */
const LOOK_AFTER_MS = 250
const WAITERS_AFTER_MS = 100
const LOOK_EVERY_MS = 20
/** How long a note is believed after its process last renewed it, and how often it looks whether it was evicted. */
const NOTE_MS = 5_000
const CHECK_MS = 500
const MOST_WRITTEN = 500

/** What other processes can see of our tickets, written a moment later. No lock depends on it. */
export class Register {
  readonly #connections: Connections
  readonly #tables: Tables
  readonly #evicted: (ids: string[]) => void
  readonly #tickets = new Map<string, SessionTicket>()
  readonly #written = new Map<string, number>()
  /** What is to be written, and since when. */
  readonly #changed = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined
  #check: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(connections: Connections, tables: Tables, evicted: (ids: string[]) => void) {
    this.#connections = connections
    this.#tables = tables
    this.#evicted = evicted
  }

  put(ticket: SessionTicket): void {
    this.#tickets.set(ticket.request.id, ticket)
    this.#soon(ticket.request.id)
  }

  drop(id: string): void {
    if (!this.#tickets.delete(id)) return
    if (this.#written.has(id)) this.#soon(id)
    else this.#changed.delete(id)
  }

  /** Takes back what was written: nothing of ours is left to see. */
  async close(): Promise<void> {
    clearTimeout(this.#timer)
    clearInterval(this.#check)
    for (const id of this.#tickets.keys()) this.drop(id)
    await this.#writing
    if (this.#written.size > 0) await this.#write().catch(() => undefined)
  }

  /**
   * The notes of one line, beside what the server says of its lock. Who holds a free lock, by his note, is dead; and a
   * lock that is held without a note has just been taken. Only for those who wait is a look a matter of time.
   */
  async view(name: string, lock: string): Promise<LineView[]> {
    await this.#flush()
    const line = lineValue({ kind: 'mutex', name })
    const columns = `id, ord, holder, TIMESTAMPDIFF(MICROSECOND, joined, ${NOW}) DIV 1000, connection`
    const notes = `SELECT ${columns} FROM ${this.#tables.session} WHERE line = ${text(line)} AND expires > ${NOW} AND evicted = 0 ORDER BY ord = 0, ord, joined`
    const from = performance.now()
    for (;;) {
      const [used, all = []] = await this.#connections.run(
        `SELECT IS_USED_LOCK('${lock}') AS n;${notes}`,
        'viewing a line',
      )
      const holder = number(used?.[0]?.[0])
      const rows = all.filter((row) => bigint(row[1]) === 0n || number(row[4]) === holder)
      const known = rows.some((row) => number(row[4]) === holder)
      const passedMs = performance.now() - from
      if (holder === 0 || passedMs >= (known ? WAITERS_AFTER_MS : LOOK_AFTER_MS)) {
        return rows.length === 0 ? [] : [{ line: lineOf(line), tickets: rows.map(noteView) }]
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS).unref())
    }
  }

  async *names(prefix: string): AsyncIterable<string> {
    await this.#letOthersWrite()
    const start = lineValue({ kind: 'mutex', name: prefix })
    const like = `LEFT(line, ${Buffer.byteLength(start)}) = ${text(start)}`
    const sql = `SELECT DISTINCT line FROM ${this.#tables.session} WHERE ${like} AND expires > ${NOW} AND evicted = 0`
    const [rows = []] = await this.#connections.run(sql, 'listing names')
    for (const [line] of rows) yield lineOf(string(line)).name
  }

  /** Marks another process's ticket as evicted; gives its session, for when it does not let go by itself. */
  async strike(id: string): Promise<number | undefined> {
    const { session } = this.#tables
    const found = `id = ${text(id)} AND expires > ${NOW} AND evicted = 0`
    const sql = `START TRANSACTION;SELECT connection FROM ${session} WHERE ${found} FOR UPDATE;UPDATE ${session} SET evicted = 1 WHERE ${found};COMMIT`
    const results = await this.#connections.run(sql, 'evicting a ticket')
    const connection = results[1]?.[0]?.[0]
    return connection === undefined ? undefined : number(connection)
  }

  /** Whether an evicted ticket's process has let go. */
  async isGone(id: string): Promise<boolean> {
    const [rows] = await this.#connections.run(
      `SELECT 1 FROM ${this.#tables.session} WHERE id = ${text(id)} AND expires > ${NOW}`,
      'evicting a ticket',
    )
    return (rows ?? []).length === 0
  }

  async #letOthersWrite(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, LOOK_AFTER_MS).unref())
    await this.#flush()
  }

  #soon(id: string): void {
    this.#changed.set(id, performance.now())
    this.#wind()
    this.#check ??= setInterval(() => void this.#lookForEvictions(), CHECK_MS).unref()
  }

  /** What changed just now is left for the next time: most holds are over by then. */
  #wind(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      const before = performance.now() - WRITE_AFTER_MS / 2
      void this.#flush(before)
      if ([...this.#changed.values()].some((at) => at > before)) this.#wind()
    }, WRITE_AFTER_MS).unref()
  }

  #flush(before?: number): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write(before)).catch(() => undefined)
    return this.#writing
  }

  async #write(before: number = Number.POSITIVE_INFINITY): Promise<void> {
    const ids: string[] = []
    for (const [id, at] of this.#changed) if (at <= before && ids.length < MOST_WRITTEN) ids.push(id)
    if (ids.length === 0) return
    for (const id of ids) this.#changed.delete(id)
    const gone = ids.filter((id) => !this.#tickets.has(id))
    const here = ids.flatMap((id) => this.#tickets.get(id) ?? [])
    const statements: string[] = []
    if (gone.length > 0) statements.push(`DELETE FROM ${this.#tables.session} WHERE id IN (${texts(gone)})`)
    if (here.length > 0) statements.push(this.#noteSql(here))
    try {
      await this.#connections.run(statements.join(';'), 'noting who holds')
      const now = performance.now()
      for (const id of gone) this.#written.delete(id)
      for (const { request } of here) {
        this.#written.set(request.id, now)
        // Left while it was being written: what was just written goes again.
        if (!this.#tickets.has(request.id)) this.#soon(request.id)
      }
    } catch (error) {
      // Others see less for a while. Written with the next change.
      const now = performance.now()
      for (const id of ids) this.#changed.set(id, now)
      // It may be the answer alone that is missing: then the notes are there, to be taken back one day.
      for (const { request } of here) this.#written.set(request.id, now)
      throw error
    }
    if (ids.length === MOST_WRITTEN) await this.#write(before)
  }

  #noteSql(tickets: readonly SessionTicket[]): string {
    const rows = tickets.map(({ request, line, session, order, joinedAt }) => {
      const joined = `${NOW} - INTERVAL ${integer((performance.now() - joinedAt) * 1_000)} MICROSECOND`
      const values = [text(request.id), text(line.value), (order ?? 0n).toString(), integer(session?.id ?? 0)]
      return `(${[...values, joined, fromNow(NOTE_MS), text(encodeHolder(request.holder))].join(',')})`
    })
    const again = 'expires = VALUES(expires), ord = VALUES(ord), connection = VALUES(connection)'
    return `INSERT INTO ${this.#tables.session} (id, line, ord, connection, joined, expires, holder) VALUES ${rows.join(',')} ON DUPLICATE KEY UPDATE ${again}`
  }

  /** One small question for all written tickets, and their notes renewed before they fade. */
  async #lookForEvictions(): Promise<void> {
    if (this.#written.size === 0) return
    try {
      const ids = [...this.#written.keys()]
      const [rows = []] = await this.#connections.run(
        `SELECT id, evicted FROM ${this.#tables.session} WHERE id IN (${texts(ids)}) AND evicted = 1`,
        'looking for evictions',
      )
      const evicted = rows.filter((row) => flag(row[1])).map(([id]) => string(id))
      if (evicted.length > 0) this.#evicted(evicted)
      const old = performance.now() - NOTE_MS / 3
      for (const [id, at] of this.#written) if (at < old && this.#tickets.has(id)) this.#changed.set(id, old)
      if (this.#changed.size > 0) await this.#flush()
    } catch {
      // Asked again in a moment.
    }
  }
}

function noteView([id, ord, holder, age]: Row): TicketView {
  return {
    id: string(id),
    order: bigint(ord),
    weight: 1,
    capacity: 1,
    holder: decodeHolder(string(holder)),
    left: false,
    ageMs: number(age),
  }
}
