import type {
  Backend,
  BackendEvents,
  FloorBackend,
  Guarantees,
  JoinRequest,
  LeaveRequest,
  LineView,
  RenewRequest,
  Standing,
} from '../../core/backend.js'
import { type BackendError, UnsupportedError } from '../../core/errors.js'
import { Ballot } from './ballot.js'
import { Entries } from './entries.js'
import type { Entry } from './entry.js'
import { Floors } from './floors.js'
import { guarantees } from './guarantees.js'
import { floorOfOthers } from './learning.js'
import { noMajority } from './no-majority.js'
import { Node } from './node.js'
import { openAll } from './opening.js'
import { checkOptions, type QuorumOptions } from './options.js'
import { poll } from './poll.js'
import { twinOf } from './twins.js'
import { mergeViews } from './views.js'
import { WaitingRoom } from './waiting-room.js'

/** A ticket's way through this class: try (join) · held: renew, repair · leave. Waiting is done by asking again. */
export class QuorumBackend implements Backend {
  readonly name: string = 'quorum'
  readonly guarantees: Guarantees
  readonly maxBatch: number
  readonly #nodes: readonly Node[]
  readonly #majority: number
  readonly #timeoutMs: number
  readonly #floors: Floors
  readonly #ballot: Ballot
  readonly #room = new WaitingRoom()
  readonly #entries = new Entries()
  #events!: BackendEvents

  constructor(backends: readonly FloorBackend[], options: QuorumOptions) {
    const { maxTtlMs = 60_000, nodeTimeoutMs = 500, labels = [] } = options
    checkOptions(backends.length, maxTtlMs, nodeTimeoutMs)
    this.#majority = Math.floor(backends.length / 2) + 1
    this.#timeoutMs = nodeTimeoutMs
    this.maxBatch = Math.min(...backends.map(({ maxBatch }) => maxBatch))
    this.guarantees = guarantees(maxTtlMs, Math.max(...backends.map((backend) => backend.guarantees.minTtlMs)))
    const nodeOptions = {
      maxTtlMs,
      floorOfOthers: (node: Node) => floorOfOthers(node, this.#nodes, nodeTimeoutMs),
      twinOf: (node: Node) => twinOf(node, this.#nodes),
      lost: (node: Node, tickets: readonly string[]) => this.#evicted(node, tickets),
    }
    this.#nodes = backends.map((backend, i) => new Node(backend, labels[i] ?? `server ${i + 1}`, nodeOptions))
    this.#floors = new Floors(this.#nodes)
    this.#ballot = new Ballot(this.#nodes, this.#majority, nodeTimeoutMs, this.#floors)
  }

  async open(events: BackendEvents): Promise<void> {
    this.#events = events
    if (await openAll(this.#nodes, this.#majority)) return
    const error = noMajority(this.#nodes, this.#majority, 'open')
    await this.close()
    throw error
  }

  async join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    const entries = requests.map((request) => {
      if (request.line.kind === 'semaphore') {
        throw new UnsupportedError(
          'A semaphore cannot be kept by a quorum: use one Redis, PostgreSQL or ZooKeeper for it.',
        )
      }
      return this.#entries.enter(request)
    })
    return await this.#stand(entries)
  }

  async renew(tickets: readonly RenewRequest[]): Promise<Standing[]> {
    const standings: Standing[] = []
    const held: number[] = []
    const waiting: number[] = []
    for (const [i, { id }] of tickets.entries()) {
      const entry = this.#entries.get(id)
      if (entry === undefined || entry.left) standings[i] = { state: 'gone' }
      else (entry.held ? held : waiting).push(i)
    }
    const entryAt = (i: number): Entry => this.#entries.get(tickets[i]!.id)!
    const [kept, stood] = await Promise.all([
      held.length === 0 ? [] : this.#ballot.extend(held.map((i) => ({ entry: entryAt(i), ttlMs: tickets[i]!.ttlMs }))),
      waiting.length === 0 ? [] : this.#stand(waiting.map(entryAt)),
    ])
    for (const [n, i] of held.entries()) {
      standings[i] = kept[n]!
      if (kept[n]!.state === 'gone') this.#forget(this.#entries.get(tickets[i]!.id))
    }
    for (const [n, i] of waiting.entries()) standings[i] = stood[n]!
    return standings
  }

  async leave(tickets: readonly LeaveRequest[]): Promise<(boolean | BackendError)[]> {
    const waited = tickets.map(({ id }) => this.#isWaiting(this.#entries.get(id)))
    const answers = await this.#ballot.leave(tickets, (id) => this.#entries.get(id))
    // Who waits stands in this client alone, and nothing of it is on the servers but what a try may have left there.
    const results = answers.map((answer, i) => (waited[i] ? true : answer))
    for (const [i, { id }] of tickets.entries()) {
      const entry = this.#entries.get(id)
      // Known to be gone, or unknown: core asks again in that case, and finds what was counted so far.
      if (typeof results[i] === 'boolean') this.#forget(entry)
      else if (entry !== undefined) this.#vacate(entry)
      // Evicted by this very client, which hears nothing more of what it forgot.
      if (entry !== undefined && tickets[i]!.handle === undefined) this.#events.lost([id])
    }
    return results
  }

  async view(name: string): Promise<LineView[]> {
    const answers = await this.#askAll('look at a line', (node) => node.backend.view(name))
    return mergeViews(answers, this.#majority)
  }

  async *names(prefix: string): AsyncIterable<string> {
    const lists = await this.#askAll('list the lines', async (node) => {
      const list: string[] = []
      for await (const name of node.backend.names(prefix)) list.push(name)
      return list
    })
    yield* new Set(lists.flat())
  }

  async close(): Promise<void> {
    await Promise.all(this.#nodes.map((node) => node.close()))
  }

  // Those whose turn it is ask the servers, in one call a server; the others of this client wait without asking.
  async #stand(entries: readonly Entry[]): Promise<Standing[]> {
    const now = performance.now()
    for (const entry of this.#entries.lapsed(now)) this.#forget(entry)
    const lines = new Map<string, Entry>()
    const turn = entries.filter((entry) => this.#mayTry(entry, lines, now))
    if (turn.length === entries.length) {
      const tried = await this.#try(turn)
      return tried.map((standing, i) => this.#tried(turn[i]!, standing))
    }
    const flying = entries.filter((entry) => entry.trying !== undefined)
    const again = entries.filter((entry) => entry.held && entry.trying === undefined)
    const [flown, tried, kept] = await Promise.all([
      Promise.all(flying.map((entry) => this.#landed(entry, now))),
      turn.length === 0 ? [] : this.#try(turn),
      again.length === 0 ? [] : this.#ballot.extend(again.map((entry) => ({ entry, ttlMs: entry.request.ttlMs }))),
    ])
    let [nextFlown, nextTried, nextKept] = [0, 0, 0]
    return entries.map((entry) => {
      if (entry === flying[nextFlown]) return flown[nextFlown++]!
      if (entry === turn[nextTried]) return this.#tried(entry, tried[nextTried++]!)
      if (entry === again[nextKept]) return kept[nextKept++]!
      const asked = lines.get(entry.line)
      return asked === undefined ? this.#notNow(entry) : this.#like(tried[turn.indexOf(asked)]!, entry)
    })
  }

  async #try(turn: readonly Entry[]): Promise<readonly Standing[]> {
    const call = this.#ballot.tryAll(turn)
    for (const [at, entry] of turn.entries()) entry.trying = { call, at }
    try {
      return await call
    } finally {
      for (const entry of turn) entry.trying = undefined
    }
  }

  // Core gave a call up that goes on: its try is the answer, and what is left of its lease at the time of this call.
  async #landed(entry: Entry, now: number): Promise<Standing> {
    const { call, at } = entry.trying!
    const standing = this.#tried(entry, (await call)[at]!)
    return standing.state === 'granted' ? { ...standing, ttlMs: Math.max(0, entry.until - now) } : standing
  }

  // Of two that ask for one mutex in one call only the first does: they would only stand in each other's way.
  #mayTry(entry: Entry, lines: Map<string, Entry>, now: number): boolean {
    entry.askedAt = now
    if (entry.held || entry.left || entry.trying !== undefined) return false
    if (entry.request.wait) this.#room.wait(entry)
    if (!this.#room.mayTry(entry, now)) return false
    if (entry.request.line.kind !== 'mutex') return true
    if (lines.has(entry.line)) return false
    lines.set(entry.line, entry)
    return true
  }

  // What the servers said to the one that asked says as much of the others of that call; who waits asks in its turn.
  #like(asked: Standing, entry: Entry): Standing {
    const isUnknown = asked.state === 'failed' || asked.state === 'gone'
    return isUnknown && !entry.request.wait && !entry.left ? asked : this.#notNow(entry)
  }

  #tried(entry: Entry, standing: Standing): Standing {
    entry.refused = standing.state === 'refused'
    if (standing.state === 'granted') {
      // Given up while the servers were asked: the leave is on its way to all of them.
      if (entry.left) return { state: 'gone' }
      this.#room.hold(entry)
      if (entry.request.line.kind === 'rw') this.#wake(entry)
      return standing
    }
    if (standing.state === 'gone') this.#forget(entry)
    if (standing.state === 'refused') {
      if (!entry.left) this.#room.othersSeen(entry, performance.now())
      return this.#notNow(entry)
    }
    return standing
  }

  #isWaiting(entry: Entry | undefined): boolean {
    return entry !== undefined && entry.request.wait && !entry.held && !entry.left
  }

  #notNow(entry: Entry): Standing {
    if (entry.left) return { state: 'gone' }
    const { wait, waitTtlMs } = entry.request
    if (!wait) {
      this.#forget(entry)
      return { state: 'refused' }
    }
    const lookAgainMs = this.#room.lookAgainMs(entry, performance.now())
    return { state: 'waiting', ahead: this.#room.ahead(entry), ttlMs: waitTtlMs, lookAgainMs }
  }

  #forget(entry: Entry | undefined): void {
    if (entry === undefined) return
    this.#entries.forget(entry)
    this.#vacate(entry)
  }

  #vacate(entry: Entry): void {
    entry.left = true
    if (this.#room.leave(entry, performance.now())) this.#wake(entry)
  }

  #wake(entry: Entry): void {
    const { line } = entry.request
    // After the answer that this is part of has been given.
    setImmediate(() => this.#events.moved(line))
  }

  // It is over once a majority says so; until then the renewal tells.
  #evicted(node: Node, tickets: readonly string[]): void {
    for (const { evicted, request } of this.#entries.withTickets(tickets)) {
      evicted.add(node)
      if (evicted.size >= this.#majority) this.#events.lost([request.id])
      else this.#events.unsure([request.id])
    }
  }

  async #askAll<Answer>(doing: string, ask: (node: Node) => Promise<Answer>): Promise<Answer[]> {
    const asked = this.#nodes.filter(({ isAsked }) => isAsked)
    const answers = await poll(asked, Math.max(this.#timeoutMs, 2_000), { ask })
    const good = [...answers.values()].flatMap((vote) => (vote instanceof Error ? [] : [vote.answer]))
    if (good.length < this.#majority) throw noMajority(this.#nodes, this.#majority, doing, { answers })
    return good
  }
}
