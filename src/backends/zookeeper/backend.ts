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
import { KINDS } from '../../core/line.js'
import { answered, ZooKeeperClient } from './client/client.js'
import { CODE, ZooKeeperError } from './client/errors.js'
import type { SessionOptions } from './client/session.js'
import { Doubts } from './doubts.js'
import { failure } from './failures.js'
import { Groups } from './group.js'
import { Joins } from './join.js'
import { Look } from './look.js'
import type { OwnTicket } from './local-line.js'
import type { Places } from './names.js'
import { connectFirst, Online } from './online.js'
import { Parents, type ParentsOptions } from './parents.js'
import { Tickets } from './tickets.js'
import { Tombstones } from './tombstones.js'

export interface ZooKeeperParts extends ParentsOptions {
  readonly session: SessionOptions
  readonly places: Places
}

export const GUARANTEES: Guarantees = {
  scope: 'network',
  order: 'fifo',
  wake: 'push',
  fence: 'strict',
  lease: 'session',
  handover: false,
  atomicGroup: true,
  minHold: 'process',
  kinds: KINDS,
  survives: ['client-crash', 'store-restart', 'store-failover', 'minority-loss'],
  minTtlMs: 1,
  ttlGranularityMs: 1,
  sentence:
    "A hold lasts as long as the client's session, whatever its ttl says: the servers end a session by the monotonic clock of their leader, so no step of a clock matters.",
}

/** The line as sequential ephemeral nodes: a path a line, a node a ticket, the node's czxid the order. */
export class ZooKeeperBackend implements Backend {
  readonly name: string = 'zookeeper'
  readonly guarantees: Guarantees = GUARANTEES
  readonly maxBatch: number = 256
  readonly #parts: ZooKeeperParts
  readonly #client: ZooKeeperClient
  readonly #online: Online
  readonly #parents: Parents
  readonly #tickets: Tickets
  readonly #doubts: Doubts
  readonly #joins: Joins
  readonly #groups: Groups
  readonly #look: Look
  readonly #tombstones = new Tombstones()
  /** Joins under way, by id: a leave waits for its ticket's. */
  readonly #joining = new Map<string, Promise<unknown>>()
  #events: BackendEvents | undefined

  constructor(parts: ZooKeeperParts) {
    this.#parts = parts
    this.#client = new ZooKeeperClient(parts.session, {
      connected: (fresh) => this.#connected(fresh),
      disconnected: () => {
        this.#tickets.disconnect()
        this.#events?.unsure()
      },
      expired: () => this.#expired(),
    })
    const client = this.#client
    this.#online = new Online(client.session)
    this.#parents = new Parents(client, parts)
    this.#tickets = new Tickets(client, this.#parents, () => this.#events)
    this.#doubts = new Doubts()
    const { places, acl } = parts
    const shared = { client, tickets: this.#tickets, parents: this.#parents, doubts: this.#doubts, places, acl }
    this.#joins = new Joins(shared)
    this.#groups = new Groups(shared, this.#joins)
    this.#look = new Look(client, parts.places)
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
    for (const request of requests) this.#joins.path(request)
    await this.#online.soon('join')
    const standings = this.#join(requests, calledAt)
    for (const [index, { id }] of requests.entries()) {
      const done = standings[index]!
      this.#joining.set(id, done)
      void done.finally(() => this.#joining.get(id) === done && this.#joining.delete(id))
    }
    return await Promise.all(standings)
  }

  async renew(requests: readonly RenewRequest[]): Promise<Standing[]> {
    const calledAt = performance.now()
    await this.#online.soon('renew')
    const waiting = requests.some(({ id }) => this.#tickets.get(id)?.state !== 'granted')
    const { session } = this.#client
    // The session keeps itself alive; only when its last proof is old, or somebody waits, is there a question.
    if (waiting || session.provenUntil - calledAt < session.timeoutMs / 2) {
      const lines = new Set(requests.map((request) => this.#lineOf(request)))
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
      if (handle !== undefined && handle !== id) continue
      this.#giveUp(id)
      void this.#joining.get(id)?.then(() => this.#giveUp(id))
    }
    await this.#online.soon('leave')
    return await Promise.all(
      requests.map((request) => this.#leave(request).catch((error: unknown) => failure(error, 'leave the line'))),
    )
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

  #join(requests: readonly JoinRequest[], calledAt: number): Promise<Standing>[] {
    const standings = new Map<JoinRequest, Promise<Standing>>()
    const plain: JoinRequest[] = []
    const groups = new Map<string, JoinRequest[]>()
    for (const request of requests) {
      const known = request.group === undefined ? this.#known(request, calledAt) : undefined
      if (known !== undefined) standings.set(request, known)
      else if (request.group !== undefined) groups.set(request.group, [...(groups.get(request.group) ?? []), request])
      else if (!request.wait) standings.set(request, this.#failing(this.#try(request, calledAt)))
      else if (request.takeover) standings.set(request, this.#failing(this.#takeOver(request, calledAt)))
      else plain.push(request)
    }
    for (const [index, standing] of this.#joins.stand(plain, calledAt).entries()) standings.set(plain[index]!, standing)
    for (const group of groups.values()) {
      const together = this.#joinGroup(group, calledAt)
      for (const [index, request] of group.entries()) {
        standings.set(request, this.#failing(together.then((answers) => answers[index]!)))
      }
    }
    return requests.map((request) => standings.get(request)!)
  }

  /** The answer for an id that was seen before. */
  #known(request: JoinRequest, calledAt: number): Promise<Standing> | undefined {
    const { id } = request
    if (this.#tombstones.has(id)) return Promise.resolve({ state: 'gone' })
    const before = this.#joining.get(id)
    if (before !== undefined) return this.#failing(before.then(() => this.#joinAgain(request, calledAt)))
    if (this.#tickets.get(id) === undefined && this.#doubts.get(id) === undefined) return undefined
    return this.#failing(this.#joinAgain(request, calledAt))
  }

  /** Joins under an id whose earlier join may have been done. */
  async #joinAgain(request: JoinRequest, calledAt: number): Promise<Standing> {
    let ticket: OwnTicket | undefined = this.#tickets.get(request.id)
    ticket ??= await this.#joins.find(request)
    if (ticket === undefined) {
      if (!request.wait) return await this.#try(request, calledAt)
      return await this.#joins.stand([request], calledAt)[0]!
    }
    if (ticket.state === 'standing') {
      this.#lineOf(request)?.refresh()
      await answered((reply) => this.#client.sync(reply))
    }
    if (ticket.state === 'granted' || request.wait) return this.#tickets.standing(ticket, calledAt)
    await this.#delete(ticket)
    return { state: 'refused' }
  }

  async #joinGroup(requests: readonly JoinRequest[], calledAt: number): Promise<Standing[]> {
    if (requests.some(({ id }) => this.#tombstones.has(id))) return requests.map(() => ({ state: 'gone' }))
    // A copy of the call may be under way still.
    const before = requests.map(({ id }) => this.#joining.get(id))
    // All are looked up at once: a moment later this very call is the one under way.
    for (const one of before) await one
    for (const request of requests) if (request.takeover) await this.#joins.takeOver(request)
    return await this.#groups.join(requests, calledAt)
  }

  async #try(request: JoinRequest, calledAt: number): Promise<Standing> {
    if (request.takeover) await this.#joins.takeOver(request)
    return await this.#joins.try(request, calledAt)
  }

  async #takeOver(request: JoinRequest, calledAt: number): Promise<Standing> {
    await this.#joins.takeOver(request)
    return await this.#joins.stand([request], calledAt)[0]!
  }

  #failing(standing: Promise<Standing>): Promise<Standing> {
    return standing.catch((error: unknown): Standing => ({ state: 'failed', error: failure(error, 'join the line') }))
  }

  /** Notes that nobody wants this ticket, also where no server can be told now: then it goes once one can. */
  #giveUp(id: string): void {
    const ticket = this.#tickets.get(id)
    if (ticket !== undefined) ticket.unwanted = true
    const doubt = this.#doubts.get(id)
    if (doubt !== undefined) doubt.over = true
  }

  async #leave({ line, id, handle }: LeaveRequest): Promise<boolean> {
    await this.#joining.get(id)
    const doubt = this.#doubts.get(id)
    const ticket = this.#tickets.get(id)
    if (ticket !== undefined) return (handle === undefined || handle === id) && (await this.#delete(ticket))
    // Neither ours nor possibly ours, and no eviction: it went with its session.
    if (handle !== undefined && doubt === undefined) return false
    const removed = await this.#look.remove(line, id)
    this.#doubts.settle(id)
    return removed
  }

  /**
   * True when the node was there, or when an earlier delete of ours may have been what removed it. A delete
   * whose answer is lost is asked for once more: as a rule the connection is back at once, or the session is
   * over and the node with it.
   */
  async #delete(ticket: OwnTicket, last = false): Promise<boolean> {
    const again = ticket.leaving
    ticket.leaving = true
    try {
      const removed = await this.#deleteNow(ticket)
      return removed || again
    } catch (error) {
      if (!(error instanceof ZooKeeperError) || error.code === CODE.sessionExpired) return false
      if (last || error.code !== CODE.connectionLoss) throw error
    }
    await this.#online.soon('leave')
    return this.#tickets.get(ticket.id) === ticket && (await this.#delete(ticket, true))
  }

  #deleteNow(ticket: OwnTicket): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#client.delete(ticket.path, (error) => {
        if (error !== undefined && error.code !== CODE.noNode) return reject(error)
        // In the very order of the answers: whoever is next among ours is judged by what is known now.
        this.#tickets.drop(ticket)
        resolve(error === undefined)
      })
    })
  }

  #lineOf({ line, id }: Pick<RenewRequest, 'line' | 'id'>): ReturnType<Tickets['line']> | undefined {
    return this.#tickets.get(id) === undefined ? undefined : this.#tickets.line(line, this.#joins.path({ line }))
  }

  #connected(fresh: boolean): void {
    if (!fresh) {
      // What happened meanwhile is told by the watches that were set again; what was being asked is asked again.
      for (const line of this.#tickets.lines()) {
        line.refresh()
        for (const ticket of line.tickets()) if (ticket.unwanted) void this.#delete(ticket).catch(ignore)
      }
      for (const [id, line] of this.#doubts.over())
        void this.#leave({ line, id, keepMs: 0, tombstoneMs: 0 }).catch(ignore)
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

function ignore(): void {
  // Tried again after the next break: nothing but a break can make it fail.
}
