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
import { type LineKey, lineText } from '../../core/line.js'
import type { Address, ConnectionSettings } from './client/connection.js'
import { Link } from './client/link.js'
import { GUARANTEES } from './guarantees.js'
import { joinLine } from './join.js'
import { type Keys, serverFor } from './keys.js'
import { leaveLine } from './leave.js'
import { LineStore } from './line-store.js'
import { OwnTickets } from './own-tickets.js'
import { renewLine } from './renew.js'
import { namesOn, viewName } from './view.js'
import { Watch } from './watch.js'

const SILENT: BackendEvents = { granted() {}, moved() {}, lost() {}, unsure() {} }

/** The line of tickets in memcached: each line is one value, changed by compare-and-swap. */
export class MemcachedBackend implements Backend {
  readonly name = 'memcached'
  readonly guarantees: Guarantees = GUARANTEES
  readonly maxBatch = 250
  readonly #addresses: readonly Address[]
  readonly #stores: readonly LineStore[]
  readonly #own: OwnTickets
  readonly #watch: Watch
  #events: BackendEvents = SILENT

  constructor(addresses: readonly Address[], settings: ConnectionSettings, keys: Keys) {
    this.#addresses = addresses
    this.#stores = addresses.map((address) => new LineStore(new Link(address, settings), keys))
    this.#own = new OwnTickets(() => this.#events)
    this.#watch = new Watch(this.#own, (name) => this.#storeOf(name))
  }

  async open(events: BackendEvents): Promise<void> {
    this.#events = events
    const links = this.#stores.map(({ link }) => link)
    const outcomes = await Promise.allSettled(links.map((link) => link.connection()))
    const errors = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []))
    // A server that is down is connected to when it is back. One that refuses us will not change its mind.
    const refused = errors.find((error) => !(error instanceof BackendError && error.retryable))
    if (refused === undefined && errors.length < links.length) return
    this.#events = SILENT
    // Not closed: the next open may find them well.
    for (const link of links) link.drop()
    throw refused ?? errors[0]
  }

  async join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    return await this.#each(requests, (store, line, items) => joinLine(store, this.#own, line, items), failed)
  }

  async renew(requests: readonly RenewRequest[]): Promise<Standing[]> {
    return await this.#each(requests, (store, line, items) => renewLine(store, this.#own, line, items), failed)
  }

  async leave(requests: readonly LeaveRequest[]): Promise<(boolean | BackendError)[]> {
    return await this.#each<LeaveRequest, boolean | BackendError>(
      requests,
      (store, line, items) => leaveLine(store, this.#own, line, items),
      (error) => error,
    )
  }

  async view(name: string): Promise<LineView[]> {
    return await viewName(this.#storeOf(name), name)
  }

  async *names(prefix: string): AsyncGenerator<string> {
    const seen = new Set<string>()
    for (const store of this.#stores) {
      for await (const name of namesOn(store, prefix)) {
        if (seen.has(name)) continue
        seen.add(name)
        yield name
      }
    }
  }

  async close(): Promise<void> {
    this.#events = SILENT
    this.#watch.close()
    for (const { link } of this.#stores) link.close()
  }

  #storeOf(name: string): LineStore {
    return this.#stores[serverFor(name, this.#addresses)]!
  }

  /**
   * Does the items of each line together and the lines side by side, in the same round trips.
   * What goes wrong in one line, or with one server, is the answer for its items only.
   */
  async #each<Item extends { readonly line: LineKey }, Out>(
    items: readonly Item[],
    work: (store: LineStore, line: LineKey, items: readonly Item[]) => Promise<Out[]>,
    whenFailed: (error: BackendError) => Out,
  ): Promise<Out[]> {
    const groups = new Map<string, { readonly item: Item; readonly index: number }[]>()
    for (const [index, item] of items.entries()) {
      const text = lineText(item.line)
      const group = groups.get(text)
      if (group === undefined) groups.set(text, [{ item, index }])
      else group.push({ item, index })
    }
    const results = Array.from<Out>({ length: items.length })
    const doGroup = async (group: readonly { readonly item: Item; readonly index: number }[]): Promise<void> => {
      const { line } = group[0]!.item
      try {
        const answers = await work(
          this.#storeOf(line.name),
          line,
          group.map(({ item }) => item),
        )
        for (const [at, { index }] of group.entries()) results[index] = answers[at]!
      } catch (error) {
        if (!(error instanceof BackendError)) throw error
        for (const { index } of group) results[index] = whenFailed(error)
      }
    }
    await Promise.all([...groups.values()].map(doGroup))
    for (const text of groups.keys()) this.#watch.update(text)
    return results
  }
}

function failed(error: BackendError): Standing {
  return { state: 'failed', error }
}
