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
import type { Clock } from '../../core/clock.js'
import { KINDS } from '../../core/line.js'
import type { MemoryLine, Stood } from './line.js'
import type { MemoryStore } from './store.js'

const GUARANTEES: Guarantees = {
  scope: 'process',
  order: 'fifo',
  wake: 'push',
  fence: 'strict',
  lease: 'ticket',
  handover: true,
  atomicGroup: true,
  minHold: 'store',
  kinds: KINDS,
  survives: [],
  minTtlMs: 10,
  ttlGranularityMs: 1,
  sentence:
    'Excludes within one process and is gone with it; leases run on the monotonic clock, so no step of a clock matters.',
}

/** The port over a store in memory. Every call is done before it returns, so nothing can come between. */
export class MemoryBackend implements Backend {
  readonly name: string = 'memory'
  readonly guarantees: Guarantees = GUARANTEES
  readonly maxBatch: number = 1_000
  readonly #store: MemoryStore
  readonly #clock: Clock
  readonly #clients = new Set<string>()
  #events: BackendEvents | undefined

  constructor(store: MemoryStore, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  open(events: BackendEvents): Promise<void> {
    this.#events = events
    return Promise.resolve()
  }

  join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    const now = this.#clock.now()
    const standings: Standing[] = []
    for (const [i, request] of requests.entries()) {
      if (request.group === undefined) standings[i] = this.#join(request, now)
      // A group is settled whole where its first member stands: a ticket of it that is taken
      // back must never have been in the way of the next request.
      else if (standings[i] === undefined) this.#joinGroup(request.group, requests, standings, now)
    }
    return Promise.resolve(standings)
  }

  renew(tickets: readonly RenewRequest[]): Promise<Standing[]> {
    const now = this.#clock.now()
    return Promise.resolve(tickets.map((ticket) => this.#renew(ticket, now)))
  }

  leave(tickets: readonly LeaveRequest[]): Promise<boolean[]> {
    const now = this.#clock.now()
    return Promise.resolve(tickets.map((ticket) => this.#leave(ticket, now)))
  }

  view(name: string): Promise<LineView[]> {
    const now = this.#clock.now()
    const views: LineView[] = []
    for (const kind of KINDS) {
      const line = this.#store.line({ kind, name })
      if (line === undefined) continue
      this.#store.settle(line, now)
      const tickets = [...line.tickets()].filter((ticket) => ticket.expiresAt > now)
      if (tickets.length === 0) continue
      views.push({
        line: line.key,
        tickets: tickets.map((ticket) => ({
          id: ticket.id,
          order: ticket.order,
          weight: ticket.weight,
          capacity: ticket.capacity,
          holder: ticket.holder,
          left: ticket.left,
          ageMs: now - ticket.joinedAt,
          remainingMs: ticket.expiresAt - now,
        })),
      })
    }
    return Promise.resolve(views)
  }

  async *names(prefix: string): AsyncIterable<string> {
    const now = this.#clock.now()
    const names = new Set<string>()
    for (const line of [...this.#store.lines]) {
      if (!line.key.name.startsWith(prefix)) continue
      this.#store.settle(line, now)
      if (!line.empty) names.add(line.key.name)
    }
    yield* names
  }

  close(): Promise<void> {
    for (const client of this.#clients) this.#store.detach(client)
    return Promise.resolve()
  }

  #join(request: JoinRequest, now: number): Standing {
    if (this.#store.buried(request.id, now)) return { state: 'gone' }
    this.#attach(request.holder.client)
    const known = this.#store.line(request.line)
    if (known !== undefined) {
      if (request.takeover && known.find(request.id) === undefined) dropEarlier(known, request, this.#store)
      this.#store.settle(known, now)
    }
    const line = this.#store.lineForJoin(request.line, now)
    let ticket = line.find(request.id)
    if (ticket?.left) return { state: 'gone' }
    if (ticket !== undefined && ticket.expiresAt <= now) {
      line.remove(ticket)
      ticket = undefined
    }
    const own = ticket ?? this.#stand(line, request, now)
    // The caller learns of its own grant by the answer.
    line.settle(now, (winner) => {
      if (winner !== own) this.#store.tell(winner)
    })
    if (!own.granted && !request.wait) {
      line.remove(own)
      this.#store.settle(line, now)
      return { state: 'refused' }
    }
    return this.#standing(line, own, request, now)
  }

  #stand(line: MemoryLine, request: JoinRequest, now: number): Stood {
    const ticket: Stood = {
      id: request.id,
      handle: request.id,
      order: this.#store.nextOrder(),
      weight: request.weight,
      capacity: request.capacity,
      holder: request.holder,
      joinedAt: now,
      expiresAt: now + request.waitTtlMs,
      granted: false,
      left: false,
      before: undefined,
      after: undefined,
    }
    line.add(ticket)
    return ticket
  }

  #renew(request: RenewRequest, now: number): Standing {
    const line = this.#store.line(request.line)
    if (line === undefined) return { state: 'gone' }
    this.#store.settle(line, now)
    const ticket = line.find(request.id)
    if (ticket === undefined || ticket.left || ticket.expiresAt <= now) return { state: 'gone' }
    if (ticket.handle !== request.handle && ticket.handle !== request.nextHandle) return { state: 'gone' }
    if (request.nextHandle !== undefined) ticket.handle = request.nextHandle
    if (request.nextHolder !== undefined) {
      ticket.holder = request.nextHolder
      this.#attach(request.nextHolder.client)
    }
    return this.#standing(line, ticket, request, now)
  }

  #leave(request: LeaveRequest, now: number): boolean {
    if (request.tombstoneMs > 0) this.#store.bury(request.id, now + request.tombstoneMs, now)
    const line = this.#store.line(request.line)
    const ticket = line?.find(request.id)
    if (line === undefined || ticket === undefined) return false
    // One that has left keeps others out for its `minHold`; only an eviction ends that.
    if (request.handle !== undefined && (ticket.left || ticket.handle !== request.handle)) return false
    const lapsed = ticket.expiresAt <= now
    if (request.keepMs > 0 && ticket.granted && !lapsed) {
      ticket.left = true
      line.extendTo(ticket, now + request.keepMs)
    } else {
      line.remove(ticket)
      if (request.handle === undefined) this.#store.lost(ticket)
    }
    this.#store.settle(line, now)
    return !lapsed
  }

  #standing(line: MemoryLine, ticket: Stood, lease: { ttlMs: number; waitTtlMs: number }, now: number): Standing {
    const ttlMs = ticket.granted ? lease.ttlMs : lease.waitTtlMs
    line.extendTo(ticket, now + ttlMs)
    if (ticket.granted) return { state: 'granted', order: ticket.order, ttlMs }
    return { state: 'waiting', ahead: line.size - 1, ttlMs, lookAgainMs: Math.max(1, line.nextExpiry - now) }
  }

  #joinGroup(group: string, requests: readonly JoinRequest[], standings: Standing[], now: number): void {
    const members = [...requests.keys()].filter((i) => requests[i]!.group === group)
    for (const i of members) standings[i] = this.#join(requests[i]!, now)
    if (members.every((i) => standings[i]!.state === 'granted')) return
    for (const i of members) {
      if (standings[i]!.state !== 'granted') continue
      const { line, id } = requests[i]!
      this.#leave({ line, id, handle: id, keepMs: 0, tombstoneMs: 0 }, now)
      standings[i] = { state: 'refused' }
    }
  }

  #attach(client: string): void {
    if (this.#clients.has(client) || this.#events === undefined) return
    this.#clients.add(client)
    this.#store.attach(client, this.#events)
  }
}

/** Drops this owner's tickets that another of its clients left behind; what was released keeps others out as it was asked to. */
function dropEarlier(line: MemoryLine, request: JoinRequest, store: MemoryStore): void {
  for (const ticket of [...line.tickets()]) {
    if (ticket.left || ticket.holder.owner !== request.holder.owner) continue
    if (ticket.holder.client === request.holder.client) continue
    line.remove(ticket)
    store.lost(ticket)
  }
}
