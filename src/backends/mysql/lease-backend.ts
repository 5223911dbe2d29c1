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
import { KINDS } from '../../core/line.js'
import { Connections } from './connections.js'
import { Joiner } from './join.js'
import { leave } from './leave.js'
import { renew } from './renew.js'
import { ensureSchema } from './schema.js'
import { checkServer } from './server.js'
import type { Lender } from './source.js'
import { type Tables, tablesOf } from './tables.js'
import { Tidy } from './tidy.js'
import { names, view } from './view.js'
import { Watch, type WatchOptions } from './watch.js'

export const GUARANTEES: Guarantees = {
  scope: 'network',
  order: 'fifo',
  wake: 'poll',
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
    'Rows of a table, compared with the server’s own UTC clock: a forward step of that clock shortens every lease by as much, a backward step lengthens it; what was committed survives a crash of the server as long as innodb_flush_log_at_trx_commit is 1, and an asynchronous replica that takes over may lack the last tickets.',
}

export interface LeaseBackendOptions {
  readonly prefix: string
  readonly connections: number
  readonly poll: WatchOptions
}

/** The port over rows: a ticket a row, its order the row's key, a line's lock one of many rows that are only locked. */
export class LeaseBackend implements Backend {
  readonly name: string = 'mysql'
  readonly guarantees: Guarantees = GUARANTEES
  readonly maxBatch: number
  readonly #tables: Tables
  readonly #prefix: string
  readonly #poll: WatchOptions
  /** Renewals and looks have connections of their own, which no join or leave can hold up. */
  readonly #work: Connections
  readonly #keep: Connections
  readonly #look: Connections
  #returning = false
  #watch!: Watch
  #joiner!: Joiner
  #tidy!: Tidy

  constructor(lender: Lender, options: LeaseBackendOptions) {
    // The names of the locks taken must fit what GROUP_CONCAT gives: 1,024 bytes, where the setting is not ours.
    this.maxBatch = lender.own ? 250 : 128
    this.#prefix = options.prefix
    this.#tables = tablesOf(options.prefix)
    this.#poll = options.poll
    this.#work = new Connections(lender, options.connections)
    this.#keep = new Connections(lender, 1)
    this.#look = new Connections(lender, 1)
  }

  async open(events: BackendEvents): Promise<void> {
    for (const connections of this.#connections) connections.open()
    try {
      this.#returning = (await checkServer(this.#work)).mariadb
      await ensureSchema(this.#work, this.#prefix)
      await Promise.all([this.#keep.warm(), this.#look.warm()])
    } catch (error) {
      await this.close()
      throw error
    }
    this.#watch = new Watch(this.#look, this.#tables, events, this.#poll)
    this.#joiner = new Joiner(this.#work, this.#tables, this.#watch, this.#returning)
    this.#tidy = new Tidy(this.#look, this.#tables)
    this.#tidy.start()
  }

  join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    return this.#joiner.join(requests)
  }

  renew(tickets: readonly RenewRequest[]): Promise<Standing[]> {
    return renew(this.#keep, this.#tables, this.#watch, tickets)
  }

  leave(tickets: readonly LeaveRequest[]): Promise<boolean[]> {
    return leave(this.#work, this.#tables, this.#watch, tickets, this.#returning)
  }

  view(name: string): Promise<LineView[]> {
    return view(this.#work, this.#tables, name)
  }

  names(prefix: string): AsyncIterable<string> {
    return names(this.#work, this.#tables, prefix)
  }

  close(): Promise<void> {
    this.#watch?.close()
    this.#tidy?.close()
    for (const connections of this.#connections) connections.close()
    return Promise.resolve()
  }

  get #connections(): Connections[] {
    return [this.#work, this.#keep, this.#look]
  }
}
