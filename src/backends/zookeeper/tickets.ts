import type { BackendEvents, JoinRequest, Standing } from '../../core/backend.js'
import type { LineKey } from '../../core/line.js'
import type { ZooKeeperClient } from './client/client.js'
import { CODE, type ZooKeeperError } from './client/errors.js'
import { EVENT } from './client/protocol.js'
import { LocalLine, lineKey } from './local-line.js'
import type { OwnTicket } from './own-ticket.js'
import { linePath, ownNode, type Places } from './names.js'
import type { Parents } from './parents.js'

/** A hold that ends sooner than this is not worth a watch on its own node. */
const WATCH_AFTER_MS = 100

/** Beyond so many lines, those where nothing of ours stands are forgotten. */
const MOST_LINES = 2_000

/** The tickets that this client's session stands with, and what it knows of their lines. */
export class Tickets {
  readonly #client: ZooKeeperClient
  readonly #parents: Parents
  readonly #places: Places
  readonly #events: () => BackendEvents | undefined
  readonly #byId = new Map<string, OwnTicket>()
  readonly #lines = new Map<string, LocalLine>()
  /** Holds whose own node is not watched yet. Whoever waits has his line read now and then, which tells as well. */
  #unwatched = new Set<OwnTicket>()
  #timer: NodeJS.Timeout | undefined

  constructor(client: ZooKeeperClient, parents: Parents, places: Places, events: () => BackendEvents | undefined) {
    this.#client = client
    this.#parents = parents
    this.#places = places
    this.#events = events
  }

  get(id: string): OwnTicket | undefined {
    return this.#byId.get(id)
  }

  lines(): Iterable<LocalLine> {
    return this.#lines.values()
  }

  /** What is known of a line, kept until `release`: a moment passes before the first ticket of ours stands there. */
  use(key: LineKey): LocalLine {
    const line = this.line(key)
    line.users += 1
    return line
  }

  release(line: LocalLine): void {
    line.users -= 1
    this.#tidy(line)
  }

  /** Whether the line is known to be free, most likely, without asking. */
  isFree(key: LineKey): boolean {
    return this.#lines.get(lineKey(key))?.free ?? false
  }

  /** Whether anything is known of the line. */
  knows(key: LineKey): boolean {
    return this.#lines.has(lineKey(key))
  }

  line(key: LineKey): LocalLine {
    const text = lineKey(key)
    let line = this.#lines.get(text)
    if (line === undefined) {
      line = new LocalLine(this.#client, key, linePath(this.#places, key), {
        granted: (ticket) => {
          this.#unwatched.add(ticket)
          this.#timer ??= setTimeout(() => this.watchAll(), WATCH_AFTER_MS).unref()
          if (ticket.answered === true) this.#events()?.granted(ticket.id, ticket.order)
        },
        lost: (ticket) => {
          this.#forget(ticket)
          this.#tidy(ticket.line)
          this.#events()?.lost([ticket.id])
        },
        idle: (one) => this.#drop(one),
      })
      this.#lines.set(text, line)
    }
    return line
  }

  /** Notes a node that was created for a request, or found to be its. */
  stand(request: JoinRequest, path: string, czxid: bigint): OwnTicket {
    const line = this.line(request.line)
    const ticket: OwnTicket = {
      id: request.id,
      line,
      node: ownNode(request, path.slice(line.path.length + 1)),
      path,
      order: czxid,
      state: 'standing',
      leaving: false,
    }
    this.#byId.set(ticket.id, ticket)
    line.stand(ticket)
    return ticket
  }

  /** The ticket's node is gone, as it should be; whoever is next among ours is told. */
  drop(ticket: OwnTicket): void {
    ticket.leaving = true
    this.#forget(ticket)
    ticket.line.gone(ticket.node)
    this.#tidy(ticket.line)
  }

  /** The connection broke: of lines where nothing of ours stands nothing is known any more. */
  disconnect(): void {
    for (const line of this.#lines.values()) if (line.size === 0) this.#drop(line)
  }

  /** The session is over: so is everything that stood with it. */
  expire(): string[] {
    const ids = [...this.#byId.keys()]
    for (const ticket of this.#byId.values()) ticket.state = 'lost'
    for (const line of this.#lines.values()) line.drop()
    this.#byId.clear()
    this.#lines.clear()
    this.#unwatched.clear()
    return ids
  }

  /** Where a ticket stands. `calledAt`: when the caller began to ask. */
  standing(ticket: OwnTicket, calledAt: number): Standing {
    ticket.answered = true
    const { session } = this.#client
    const ttlMs = Math.max(0, session.provenUntil - calledAt)
    if (ticket.state === 'lost') return { state: 'gone' }
    if (ticket.state === 'granted') return { state: 'granted', order: ticket.order, ttlMs }
    const ahead = ticket.line.ahead(ticket)
    return { state: 'waiting', ahead, ttlMs, lookAgainMs: session.timeoutMs }
  }

  /** Watches the nodes of tickets that last, so that an eviction is noticed. */
  watch(ticket: OwnTicket): void {
    this.#unwatched.delete(ticket)
    if (ticket.watcher !== undefined || ticket.state === 'lost' || ticket.leaving) return
    const missing = (): void => ticket.line.gone(ticket.node)
    ticket.watcher = ({ type }) => {
      delete ticket.watcher
      if (type === EVENT.deleted) missing()
      else this.watch(ticket)
    }
    this.#client.getData(ticket.path, ticket.watcher, (error: ZooKeeperError | undefined) => {
      if (error === undefined) return
      delete ticket.watcher
      if (error.code === CODE.noNode) missing()
      else this.#unwatched.add(ticket)
    })
  }

  close(): void {
    clearTimeout(this.#timer)
    this.expire()
  }

  /** Forgets a line where none of our tickets stands. */
  #tidy(line: LocalLine): void {
    if (line.size > 0 || line.users > 0 || this.#lines.get(line.key) !== line) return
    this.#parents.leave(line.path)
    if (!line.worthKeeping || this.#lines.size > MOST_LINES) this.#drop(line)
  }

  #drop(line: LocalLine): void {
    if (line.users > 0) return
    line.drop()
    this.#lines.delete(line.key)
  }

  /** Watches those that were not worth it before, or could not be. */
  watchAll(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const tickets = this.#unwatched
    this.#unwatched = new Set()
    if (this.#client.session.state === 'connected') for (const ticket of tickets) this.watch(ticket)
  }

  #forget(ticket: OwnTicket): void {
    this.#byId.delete(ticket.id)
    this.#unwatched.delete(ticket)
    if (ticket.watcher === undefined) return
    this.#client.session.watches.remove('data', ticket.path, ticket.watcher)
    delete ticket.watcher
  }
}
