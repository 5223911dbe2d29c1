import type {
  Backend,
  BackendEvents,
  Guarantees,
  Holder,
  JoinRequest,
  LeaveRequest,
  LineView,
  RenewRequest,
  Standing,
} from '../../core/backend.js'
import { BackendError } from '../../core/errors.js'
import { LockFile } from './file.js'
import { GUARANTEES } from './guarantees.js'
import { type Card, holderText } from './holder.js'
import { Inbox } from './inbox.js'
import { joinAll, type Outcome } from './join.js'
import { leaveAll, renewAll } from './keep.js'
import { Ledger, nameOf } from './ledger.js'
import { listNames, viewName } from './look.js'
import { Sweeper } from './sweeper.js'
import type { Place } from './ticket.js'
import { joinFree, leaveAlone, renewFirst } from './usual.js'

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
  #card: Card | undefined

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
    const { file } = this.#parts()
    file.assertInPlace()
    const card = this.#card ?? (await this.#cardOf(requests[0]?.holder))
    return await this.#write('standing in line', card, (ledger) => {
      const order = joinFree(file.sql, requests, card)
      if (order === undefined) return joinAll(requests, ledger(), card)
      return requests.map((request, i) => ({ state: 'granted', order: BigInt(order + i), ttlMs: request.ttlMs }))
    })
  }

  async renew(requests: readonly RenewRequest[]): Promise<Standing[]> {
    const { file } = this.#parts()
    file.assertInPlace()
    const card =
      this.#card ?? (await this.#cardOf(requests.find((request) => request.nextHolder !== undefined)?.nextHolder))
    return await this.#write('renewing', card, (ledger) => {
      if (!renewFirst(file.sql, requests)) return renewAll(requests, ledger(), card)
      return requests.map(({ order, ttlMs }) => ({ state: 'granted', order: order!, ttlMs }))
    })
  }

  async leave(requests: readonly LeaveRequest[]): Promise<boolean[]> {
    const { file, inbox } = this.#parts()
    const card = this.#card ?? (await this.#cardOf(undefined))
    // Of several, some may have company: then none must have left, and it is done again with more care.
    const alone = (): boolean => leaveAlone(file.sql, requests)
    if (requests.length > 1 && (await file.transactionIf('leaving', alone))) return requests.map(() => true)
    const { answers, mail } = await file.transaction('leaving', () => {
      if (requests.length === 1 && alone()) return { answers: [true], mail: [] }
      const ledger = new Ledger(file.sql, card)
      const answers = leaveAll(requests, ledger)
      ledger.settle(new Set())
      ledger.write()
      return { answers, mail: ledger.mail }
    })
    inbox.send(mail)
    return answers
  }

  async view(name: string): Promise<LineView[]> {
    return await viewName(this.#parts().file, name)
  }

  async *names(prefix: string): AsyncIterable<string> {
    yield* listNames(this.#parts().file, prefix)
  }

  async close(): Promise<void> {
    const file = this.#file
    const card = this.#card
    this.#file = undefined
    this.#inbox?.close()
    if (file === undefined) return
    try {
      if (card !== undefined) await file.transaction('closing', () => file.sql.forget.run([card.key]))
    } catch (error) {
      // Whoever sweeps next does it; closing must not fail for it.
      if (!(error instanceof BackendError)) throw error
    } finally {
      file.close()
    }
  }

  #parts(): { file: LockFile; inbox: Inbox } {
    if (this.#file === undefined || this.#inbox === undefined) {
      throw new BackendError(`The sqlite store ${this.#path} is not open.`, { retryable: false })
    }
    this.#sweeper?.tick()
    return { file: this.#file, inbox: this.#inbox }
  }

  /** This client's card. It is written when the first holder is known, who is also the usual one. */
  async #cardOf(holder: Holder | undefined): Promise<Card> {
    const { file, inbox } = this.#parts()
    if (this.#card !== undefined) return this.#card
    const { owner, client, host, pid } = holder ?? { owner: '', client: '', host: '', pid: 0 }
    const usual: Holder = { owner, client, host, pid }
    const enter = (): Card => {
      // Another call may have written it meanwhile.
      if (this.#card !== undefined || holder === undefined)
        return this.#card ?? { key: 0, inbox: inbox.name, holder: usual }
      const { lastInsertRowid } = file.sql.enter.run([inbox.name, holderText(usual)])
      this.#card = { key: Number(lastInsertRowid), inbox: inbox.name, holder: usual }
      return this.#card
    }
    return await file.transaction('entering', enter)
  }

  /** Decides and writes in one transaction, and delivers the mail that follows from it. */
  async #write(doing: string, card: Card, decide: (ledger: () => Ledger) => Outcome[]): Promise<Standing[]> {
    const { file, inbox } = this.#parts()
    const { standings, mail } = await file.transaction(doing, () => {
      let ledger: Ledger | undefined
      const outcomes = decide(() => (ledger = new Ledger(file.sql, card)))
      if (ledger === undefined) return { standings: outcomes as Standing[], mail: [] }
      return { standings: this.#settle(outcomes, ledger), mail: ledger.mail }
    })
    inbox.send(mail)
    return standings
  }

  #settle(outcomes: readonly Outcome[], ledger: Ledger): Standing[] {
    const tickets = outcomes.filter((outcome): outcome is Place => !('state' in outcome))
    ledger.settle(new Set(tickets.map(nameOf)))
    ledger.write()
    const waiting = tickets.filter((ticket) => !ledger.isDropped(ticket) && !ledger.line(ticket.line).isGranted(ticket))
    const ahead = ledger.ahead(waiting)
    return outcomes.map((outcome) => {
      return 'state' in outcome ? outcome : this.#standing(outcome, ahead.get(outcome), ledger)
    })
  }

  #standing(ticket: Place, ahead: number | undefined, ledger: Ledger): Standing {
    const { ttl: ttlMs } = ticket
    if (ledger.isDropped(ticket)) return { state: 'gone' }
    if (ahead === undefined) return { state: 'granted', order: BigInt(ticket.ord), ttlMs }
    return { state: 'waiting', ahead, ttlMs, lookAgainMs: this.#lookAgainMs(ticket, ahead, ledger) }
  }

  /**
   * The first who waits looks when a lease before it ends, and every LOOK_MS whether its holder's process still lives;
   * those behind look ever more seldom, in case that the first has died itself. So a long line costs hardly more than a short one.
   */
  #lookAgainMs(ticket: Place, ahead: number, ledger: Ledger): number {
    const holders = ledger.line(ticket.line).holders()
    const place = Math.max(0, ahead - holders.length)
    const stepMs = this.#inbox?.watching === true ? LOOK_MS : LOOK_UNWATCHED_MS
    const leaseMs = Math.max(1, Math.min(...holders.map((holder) => holder.until)) - ledger.now)
    if (place === 0 && !holders.some((holder) => ledger.mayDie(holder))) return leaseMs
    return Math.min(leaseMs + place * stepMs, (place + 1) * stepMs)
  }
}
