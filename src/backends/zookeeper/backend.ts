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
import type { BackendError } from '../../core/errors.js'
import { KINDS } from '../../core/line.js'
import { answered, ZooKeeperClient } from './client/client.js'
import type { SessionOptions } from './client/session.js'
import { Creations } from './creations.js'
import { Doubts } from './doubts.js'
import { Earlier } from './earlier.js'
import { failure } from './failures.js'
import { Groups } from './group.js'
import { GUARANTEES, SessionPromise } from './guarantees.js'
import { Joins } from './join.js'
import { Joining } from './joining.js'
import { Leaving } from './leaving.js'
import { LineLists } from './line-lists.js'
import { Look } from './look.js'
import { linePath, type Places } from './names.js'
import { connectFirst, Online } from './online.js'
import { Parents, type ParentsOptions } from './parents.js'
import { Room } from './room.js'
import { Tickets } from './tickets.js'
import { Tombstones } from './tombstones.js'

export interface ZooKeeperParts extends ParentsOptions {
  readonly session: SessionOptions
  readonly places: Places
}

/** The line as sequential ephemeral nodes: a path a line, a node a ticket, the node's czxid the order. */
export class ZooKeeperBackend implements Backend {
  readonly name: string = 'zookeeper'
  readonly #promise: SessionPromise
  readonly maxBatch: number = 512
  readonly #parts: ZooKeeperParts
  readonly #client: ZooKeeperClient
  readonly #online: Online
  readonly #parents: Parents
  readonly #tickets: Tickets
  readonly #doubts: Doubts
  readonly #joining: Joining
  readonly #leaving: Leaving
  readonly #look: Look
  readonly #tombstones = new Tombstones()
  #events: BackendEvents | undefined

  constructor(parts: ZooKeeperParts) {
    this.#parts = parts
    this.#promise = new SessionPromise(GUARANTEES, parts.session.timeoutMs)
    this.#client = new ZooKeeperClient(parts.session, {
      connected: (fresh) => this.#connected(fresh),
      disconnected: () => {
        this.#tickets.disconnect()
        this.#events?.unsure()
      },
      expired: () => this.#expired(),
    })
    const client = this.#client
    const online = new Online(client.session)
    const parents = new Parents(client, parts)
    const tickets = new Tickets(client, parents, parts.places, () => this.#events)
    const doubts = new Doubts()
    const look = new Look(client, parts.places)
    const { places, acl } = parts
    const creations = new Creations({ client, tickets, doubts, acl })
    const lists = new LineLists()
    const room = new Room({ client, tickets, doubts, places })
    const earlier = new Earlier({ client, tickets, places, creations, lists })
    const joins = new Joins({ client, tickets, parents, creations, lists, room })
    const leaving = new Leaving({ client, tickets, doubts, look, online })
    const groups = new Groups({ client, tickets, parents, doubts, acl, creations, lists, room, earlier, joins })
    const tombstones = this.#tombstones
    this.#joining = new Joining({ client, tickets, doubts, tombstones, earlier, joins, groups, leaving })
    this.#online = online
    this.#parents = parents
    this.#tickets = tickets
    this.#doubts = doubts
    this.#leaving = leaving
    this.#look = look
  }

  get guarantees(): Guarantees {
    return this.#promise.guarantees
  }

  async open(events: BackendEvents): Promise<void> {
    this.#events = events
    await connectFirst(this.#client.session, this.#online)
    try {
      for (const kind of KINDS) await this.#parents.folder(this.#look.folder(kind))
      await this.#look.probe(this.#parts.acl)
    } catch (error) {
      await this.#client.session.close()
      throw failure(error, `make its folders below '${this.#parts.places.base}'`)
    }
  }

  async join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    const calledAt = performance.now()
    // A name that cannot be a path is found before anything is sent.
    for (const { line } of requests) if (!this.#tickets.knows(line)) linePath(this.#parts.places, line)
    if (!this.#online.now) await this.#online.soon('join')
    return await this.#joining.join(requests, calledAt)
  }

  async renew(requests: readonly RenewRequest[]): Promise<Standing[]> {
    const calledAt = performance.now()
    if (!this.#online.now) await this.#online.soon('renew')
    const waiting = requests.some(({ id }) => this.#tickets.get(id)?.state !== 'granted')
    const { session } = this.#client
    // The session keeps itself alive; only when its last proof is old, or somebody waits, is there a question.
    if (waiting || session.provenUntil - calledAt < session.timeoutMs / 2) {
      const lines = new Set(requests.map(({ id }) => this.#tickets.get(id)?.line))
      for (const line of lines) line?.lookAgain(session.timeoutMs / 5)
      try {
        await answered((reply) => this.#client.sync(reply))
      } catch (error) {
        throw failure(error, 'renew')
      }
    }
    return requests.map(({ id, handle }) => {
      const ticket = this.#tickets.get(id)
      if (ticket === undefined || handle !== id) return { state: 'gone' }
      return this.#tickets.standing(ticket, calledAt)
    })
  }

  async leave(requests: readonly LeaveRequest[]): Promise<(boolean | BackendError)[]> {
    for (const { id, handle, tombstoneMs } of requests) {
      if (tombstoneMs > 0) this.#tombstones.bury(id, tombstoneMs)
      // Who is evicted did not give up: he is told that he lost it, once it is gone.
      if (handle !== id) continue
      this.#leaving.giveUp(id)
      void this.#joining.underWay(id)?.then(() => this.#leaving.giveUp(id))
    }
    if (!this.#online.now) await this.#online.soon('leave')
    return await Promise.all(this.#leaving.leave(requests, (id) => this.#joining.underWay(id)))
  }

  async view(name: string): Promise<LineView[]> {
    await this.#online.soon('look')
    return await this.#look.view(name).catch((error: unknown) => {
      throw failure(error, 'read the line')
    })
  }

  async *names(prefix: string): AsyncIterable<string> {
    await this.#online.soon('look')
    try {
      yield* this.#look.names(prefix)
    } catch (error) {
      throw failure(error, 'list the lines')
    }
  }

  async close(): Promise<void> {
    this.#events = undefined
    this.#doubts.clear()
    // Nothing else may be keeping the process alive, and a session that is not ended holds others up.
    const alive = setInterval(() => undefined, 1_000)
    if (this.#client.session.state === 'connected') await this.#parents.close()
    await this.#client.session.close()
    clearInterval(alive)
    this.#tickets.close()
    this.#online.close()
  }

  #connected(fresh: boolean): void {
    this.#promise.given(this.#client.session.timeoutMs)
    if (!fresh) {
      // What happened meanwhile is told by the watches that were set again; what was being asked is asked again.
      for (const line of this.#tickets.lines()) {
        line.refresh()
        this.#leaving.tidy(line.tickets())
      }
      this.#leaving.tidyDoubts(this.#doubts.over())
      this.#tickets.watchAll()
    }
    this.#online.connected()
  }

  #expired(): void {
    const ids = this.#tickets.expire()
    this.#doubts.clear()
    this.#parents.forget()
    if (ids.length > 0) this.#events?.lost(ids)
  }
}
