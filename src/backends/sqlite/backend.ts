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
import { lineText } from '../../core/line.js'
import { isDuplicate } from './failures.js'
import { LockFile } from './file.js'
import { GUARANTEES } from './guarantees.js'
import { holderText, isPlain } from './holder.js'
import { Inbox } from './inbox.js'
import { joinAll, type Outcome } from './join.js'
import { leaveAll, renewAll } from './keep.js'
import { Ledger } from './ledger.js'
import { listNames, viewName } from './look.js'
import { CLOCK, now } from './process.js'
import { Sweeper } from './sweeper.js'
import type { Ticket } from './ticket.js'

/** A dead holder is noticed within this by the first who waits, within twice this by the second, and so on. */
const LOOK_MS = 200
/** The same without a watched inbox, where looking is also how one learns of a release. */
const LOOK_UNWATCHED_MS = 30

/** The lines of one machine in a SQLite file: one transaction a call, wake-up by a watched inbox file a client. */
export class SqliteBackend implements Backend {
  readonly name = 'sqlite'
  readonly guarantees: Guarantees = GUARANTEES
  readonly maxBatch = 500
  readonly #path: string
  #file: LockFile | undefined
  #inbox: Inbox | undefined
  #sweeper: Sweeper | undefined

  constructor(path: string) {
    this.#path = path
  }

  async open(events: BackendEvents): Promise<void> {
    const file = await LockFile.open(this.#path)
    const inbox = new Inbox(this.#path, ({ id, order }) => {
      if (order === undefined) events.lost([id])
      else events.granted(id, BigInt(order))
    })
    this.#file = file
    this.#inbox = inbox
    this.#sweeper = new Sweeper(file, inbox)
  }

  async join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    const { inbox } = this.#parts()
    const order = await this.#joinFree(requests)
    if (order !== undefined) {
      return requests.map((request, i) => ({ state: 'granted', order: BigInt(order + i), ttlMs: request.ttlMs }))
    }
    return await this.#transact('standing in line', (ledger) => joinAll(requests, ledger, inbox.name))
  }

  async renew(requests: readonly RenewRequest[]): Promise<Standing[]> {
    const { file, inbox } = this.#parts()
    const doing = 'renewing'
    const plain = requests.filter(
      (r) => r.order !== undefined && r.nextHandle === undefined && r.nextHolder === undefined,
    )
    if (plain.length > 0) {
      const items = JSON.stringify(plain.map((r) => [Number(r.order), r.id, r.handle, r.ttlMs]))
      const { changes } = await file.attempt(doing, () => file.sql.renewFirst.run([items, now(), CLOCK]))
      if (changes === requests.length) {
        return requests.map(({ order, ttlMs }) => ({ state: 'granted', order: order!, ttlMs }))
      }
    }
    return await this.#transact(doing, (ledger) => renewAll(requests, ledger, inbox.name))
  }

  async leave(requests: readonly LeaveRequest[]): Promise<boolean[]> {
    const { file, inbox } = this.#parts()
    const left = await this.#leaveAlone(requests)
    const rest = requests.filter((request) => !left.has(request))
    if (rest.length === 0) return requests.map(() => true)
    const { answers, mail } = await file.transaction('leaving', () => {
      const ledger = new Ledger(file.sql, inbox.name)
      const answers = leaveAll(rest, ledger)
      ledger.settle(new Set())
      ledger.write()
      return { answers, mail: ledger.mail }
    })
    inbox.send(mail)
    const byRequest = new Map(rest.map((request, i) => [request, answers[i]!]))
    return requests.map((request) => byRequest.get(request) ?? true)
  }

  async view(name: string): Promise<LineView[]> {
    return await viewName(this.#parts().file, name)
  }

  names(prefix: string): AsyncIterable<string> {
    return listNames(this.#parts().file, prefix)
  }

  async close(): Promise<void> {
    this.#inbox?.close()
    this.#file?.close()
    this.#inbox = undefined
    this.#file = undefined
  }

  #parts(): { file: LockFile; inbox: Inbox } {
    if (this.#file === undefined || this.#inbox === undefined) {
      throw new BackendError(`The sqlite store ${this.#path} is not open.`, { retryable: false })
    }
    this.#sweeper?.tick()
    return { file: this.#file, inbox: this.#inbox }
  }

  /** The order of the first, when every request was for a line that nobody stands in. */
  async #joinFree(requests: readonly JoinRequest[]): Promise<number | undefined> {
    const { file, inbox } = this.#parts()
    const lines = new Set<string>()
    const items: unknown[] = []
    for (const { line, id, weight, capacity, ttlMs, holder, group } of requests) {
      const text = lineText(line)
      if (group !== undefined || !isPlain(holder) || lines.has(text)) return undefined
      lines.add(text)
      items.push([id, text, weight, capacity, ttlMs, holderText(holder)])
    }
    const json = JSON.stringify(items)
    try {
      const { changes, lastInsertRowid } = await file.attempt('standing in line', () =>
        file.sql.joinFree.run([json, now(), CLOCK, inbox.name]),
      )
      // Else those that did get in are found standing by the transaction that follows, as a repeated join would be.
      return changes === requests.length ? Number(lastInsertRowid) - requests.length + 1 : undefined
    } catch (error) {
      // An id that stands already: the transaction answers for each by itself.
      if (error instanceof BackendError && isDuplicate(error.cause)) return undefined
      throw error
    }
  }

  /** Those that stood alone in their line, so that there was nobody to tell; they have left. */
  async #leaveAlone(requests: readonly LeaveRequest[]): Promise<Set<LeaveRequest>> {
    const { file } = this.#parts()
    const plain = new Map<number, LeaveRequest>()
    for (const request of requests) {
      const { order, handle, keepMs, tombstoneMs } = request
      if (order !== undefined && handle !== undefined && keepMs === 0 && tombstoneMs === 0)
        plain.set(Number(order), request)
    }
    if (plain.size === 0) return new Set()
    const items = JSON.stringify([...plain].map(([order, request]) => [order, request.id, request.handle]))
    const rows = (await file.attempt('leaving', () => file.sql.leaveAlone.all([items, now(), CLOCK]))) as [number][]
    return new Set(rows.map(([order]) => plain.get(order)!))
  }

  /** Decides and writes in one transaction, and delivers the mail that follows from it. */
  async #transact(doing: string, decide: (ledger: Ledger) => Outcome[]): Promise<Standing[]> {
    const { file, inbox } = this.#parts()
    const { standings, mail } = await file.transaction(doing, () => {
      const ledger = new Ledger(file.sql, inbox.name)
      const outcomes = decide(ledger)
      const tickets = outcomes.filter((outcome): outcome is Ticket => !('state' in outcome))
      ledger.settle(new Set(tickets))
      ledger.write()
      const waiting = tickets.filter(
        (ticket) => !ledger.isDropped(ticket) && !ledger.line(ticket.line).isGranted(ticket),
      )
      const ahead = ledger.ahead(waiting)
      const standings = outcomes.map((outcome) => {
        return 'state' in outcome ? outcome : this.#standing(outcome, ahead.get(outcome), ledger)
      })
      return { standings, mail: ledger.mail }
    })
    inbox.send(mail)
    return standings
  }

  #standing(ticket: Ticket, ahead: number | undefined, ledger: Ledger): Standing {
    const { ttl: ttlMs } = ticket
    if (ledger.isDropped(ticket)) return { state: 'gone' }
    if (ahead === undefined) return { state: 'granted', order: BigInt(ticket.ord), ttlMs }
    return { state: 'waiting', ahead, ttlMs, lookAgainMs: this.#lookAgainMs(ticket, ahead, ledger) }
  }

  /**
   * The first who waits looks when a lease before it ends, and every LOOK_MS whether its holder's process still lives;
   * those behind look ever more seldom, in case that the first has died itself. So a long line costs hardly more than a short one.
   */
  #lookAgainMs(ticket: Ticket, ahead: number, ledger: Ledger): number {
    const holders = ledger.line(ticket.line).holders()
    const place = Math.max(0, ahead - holders.length)
    const stepMs = this.#inbox?.watching === true ? LOOK_MS : LOOK_UNWATCHED_MS
    const leaseMs = Math.max(1, Math.min(...holders.map((holder) => holder.until)) - ledger.now)
    if (place === 0 && !holders.some((holder) => ledger.mayDie(holder))) return leaseMs
    return Math.min(leaseMs + place * stepMs, (place + 1) * stepMs)
  }
}
