import type { JoinRequest, LeaveRequest, Standing } from '../../core/backend.js'
import { BackendError } from '../../core/errors.js'
import type { Entry } from './entry.js'
import type { Floors } from './floors.js'
import type { Node, Vote } from './node.js'
import { type Answers, poll } from './poll.js'
import { isDecided, isSettled, type Tally, tally } from './tally.js'

/** A join that was broken off may arrive late: for so long it finds a tombstone. */
const TOMBSTONE_MS = 60_000

type Votes = Answers<Vote<Standing[]>>

/** Asks the servers and counts: majorities only, and what failed is undone everywhere before it is answered. */
export class Ballot {
  readonly #nodes: readonly Node[]
  readonly #majority: number
  readonly #timeoutMs: number
  readonly #floors: Floors

  constructor(nodes: readonly Node[], majority: number, timeoutMs: number, floors: Floors) {
    this.#nodes = nodes
    this.#majority = majority
    this.#timeoutMs = timeoutMs
    this.#floors = floors
  }

  /** One try for each entry: granted by a majority that agrees on the order, or standing nowhere. */
  async tryAll(entries: readonly Entry[]): Promise<Standing[]> {
    const sentAt = performance.now()
    for (const entry of entries) entry.again()
    const requests = entries.map(({ request, ticket }) => this.#nodeRequest(request, ticket))
    const answers = await this.#ask(entries, async (node) => {
      try {
        return await node.join(requests)
      } catch (error) {
        // Broken off: it may have arrived all the same, or arrive behind its own leave.
        for (const [i, entry] of entries.entries()) if (entry.ticket === requests[i]!.id) entry.silent.add(node)
        throw error
      }
    })
    for (const entry of entries) entry.tookMs = performance.now() - sentAt
    const votes = entries.map((_, i) => tally(this.#nodes, answers, i))
    const won = entries.map((_, i) => votes[i]!.yes.size >= this.#majority)
    const orders = await this.#agree(entries, votes, won)
    const lost = entries.filter((_, i) => orders[i] === undefined)
    if (lost.length > 0)
      await this.#undo(
        lost,
        votes.filter((_, i) => orders[i] === undefined),
      )
    return entries.map((entry, i) => {
      const order = orders[i]
      if (order === undefined) return this.#no(votes[i]!, won[i]!, entry.request.wait)
      const { ttlMs } = entry.request
      entry.order = order
      entry.until = sentAt + ttlMs
      return { state: 'granted', order, ttlMs }
    })
  }

  /** Keeps held tickets alive on a majority that has had them all along, and puts them back where they were lost. */
  async extend(holds: readonly { entry: Entry; ttlMs: number }[]): Promise<Standing[]> {
    const sentAt = performance.now()
    const requests = holds.map(({ entry: { request, ticket }, ttlMs }) => {
      return { line: request.line, id: ticket, handle: ticket, ttlMs, waitTtlMs: ttlMs }
    })
    const entries = holds.map(({ entry }) => entry)
    const mend = (node: Node, vote: Vote<Standing[]>): void => this.#repair(node, vote, holds)
    const answers = await this.#ask(entries, (node) => node.renew(requests), mend)
    for (const [node, vote] of answers) if (!(vote instanceof Error)) mend(node, vote)
    const gone: Entry[] = []
    const standings = holds.map(({ entry, ttlMs }, i): Standing => {
      const votes = tally(this.#nodes, answers, i)
      if (votes.yes.size >= this.#majority) {
        entry.until = sentAt + ttlMs
        return { state: 'granted', order: entry.order!, ttlMs }
      }
      if (!isDecided(votes, this.#majority) || votes.uncounted.length > 0) {
        return { state: 'failed', error: this.noMajority('renew a ticket', votes) }
      }
      gone.push(entry)
      return { state: 'gone' }
    })
    // No majority has it: what stands on the others would only be in the way.
    if (gone.length > 0) this.#send(gone.map((entry) => this.#leaveOf(entry, TOMBSTONE_MS)))
    return standings
  }

  /** Lets go on every server; true when a majority had it. */
  async leave(
    tickets: readonly LeaveRequest[],
    entryOf: (id: string) => Entry | undefined,
  ): Promise<(boolean | BackendError)[]> {
    const entries = tickets.map(({ id }) => entryOf(id))
    for (const entry of entries) if (entry !== undefined) entry.left = true
    const had = tickets.map((_, i) => entries[i]?.released ?? new Set<Node>())
    const note = (node: Node, vote: Vote<(boolean | BackendError)[]>): void => {
      for (const [i, set] of had.entries()) if (vote.answer[i] === true) set.add(node)
    }
    // Mostly the same for all servers.
    const plain = entries.every((entry) => entry === undefined || entry.silent.size === 0)
      ? tickets.map((ticket, i) => this.#nodeLeave(ticket, entries[i], this.#nodes[0]!))
      : undefined
    const answers = await poll(
      this.#nodes,
      this.#timeoutMs,
      async (node) => {
        const requests = plain ?? tickets.map((ticket, i) => this.#nodeLeave(ticket, entries[i], node))
        const vote = await node.leave(requests)
        note(node, vote)
        return vote
      },
      () => had.every((set) => set.size >= this.#majority),
    )
    return tickets.map((_, i) => {
      if (had[i]!.size >= this.#majority) return true
      const unknown = this.#nodes.filter((node) => {
        const vote = answers.get(node)
        return vote === undefined || vote instanceof Error || vote.answer[i] instanceof BackendError
      })
      if (had[i]!.size + unknown.length < this.#majority) return false
      return this.noMajority('leave a line', undefined, answers)
    })
  }

  /** The error that carries each server's answer. */
  noMajority(doing: string, votes?: Tally, answers?: Answers<unknown>): BackendError {
    const causes: Error[] = []
    const words = this.#nodes.map((node) => {
      const answer = answers?.get(node)
      const error = votes?.errors.get(node) ?? (answer instanceof Error ? answer.message : node.unfit)
      const silent = answers !== undefined && answer === undefined ? 'no answer in time' : undefined
      const word = `${node.label}: ${error ?? silent ?? 'ok'}`
      if ((error ?? silent) !== undefined) causes.push(new Error(word))
      return word
    })
    return new BackendError(
      `The quorum failed to ${doing}: ${this.#majority} of ${this.#nodes.length} servers must agree. ${words.join(' · ')}`,
      { retryable: true, cause: new AggregateError(causes, 'what each server answered') },
    )
  }

  #nodeRequest(request: JoinRequest, ticket: string): JoinRequest {
    // Nobody waits on the servers: two that are first on different ones would wait for each other.
    return { ...request, id: ticket, wait: false, floor: this.#floors.next() }
  }

  #ask(
    entries: readonly Entry[],
    ask: (node: Node) => Promise<Vote<Standing[]>>,
    late?: (node: Node, vote: Vote<Standing[]>) => void,
  ): Promise<Votes> {
    const decided = (answers: Votes): boolean =>
      entries.every((_, i) => isSettled(this.#nodes.length, answers, i, this.#majority))
    return poll(this.#nodes, this.#timeoutMs, ask, decided, late)
  }

  // The second round: where the voters gave different orders, the highest is written back to a majority, so that
  // every later majority meets it. Undefined for those that did not win, or whose order could not be written.
  async #agree(
    entries: readonly Entry[],
    votes: readonly Tally[],
    won: readonly boolean[],
  ): Promise<(bigint | undefined)[]> {
    const highest = votes.map(({ yes }) => [...yes.values()].reduce((most, order) => (order > most ? order : most), 0n))
    const agreed = votes.map(({ yes }, i) => new Set([...yes.keys()].filter((node) => yes.get(node) === highest[i])))
    for (const order of highest) this.#floors.seen(order)
    const open = [...entries.keys()].filter((i) => won[i] && agreed[i]!.size < this.#majority)
    if (open.length > 0) {
      const requests = open.map((i) => {
        const { request, ticket } = entries[i]!
        const { ttlMs, waitTtlMs, line } = request
        return { line, id: ticket, handle: ticket, ttlMs, waitTtlMs, floor: highest[i]! }
      })
      const voters = this.#nodes.filter((node) => open.some((i) => votes[i]!.yes.has(node)))
      const done = (): boolean => open.every((i) => agreed[i]!.size >= this.#majority)
      await poll(
        voters,
        this.#timeoutMs,
        async (node) => {
          const { answer, counts } = await node.renew(requests)
          for (const [n, i] of open.entries()) {
            const standing = answer[n]!
            if (counts && standing.state === 'granted' && standing.order === highest[i]) agreed[i]!.add(node)
          }
        },
        done,
      )
      // The guess was off: ask the clocks again, in the background.
      for (const node of this.#nodes) if (node.unfit === undefined) node.origin().catch(() => undefined)
    }
    return entries.map((_, i) => (won[i] && agreed[i]!.size >= this.#majority ? highest[i] : undefined))
  }

  // Before the next try: where a server said yes, its answer is waited for; where it said nothing, the leave is at
  // least sent behind the join.
  async #undo(entries: readonly Entry[], votes: readonly Tally[]): Promise<void> {
    const requests = entries.map((entry) => this.#leaveOf(entry, 0))
    const certain = new Set(votes.flatMap(({ yes, uncounted }) => [...yes.keys(), ...uncounted]))
    const rest = this.#nodes.filter((node) => !certain.has(node) && votes.some(({ unknown }) => unknown.includes(node)))
    for (const node of rest) {
      const buried = entries.map((entry, i) =>
        entry.silent.has(node) ? { ...requests[i]!, tombstoneMs: TOMBSTONE_MS } : requests[i]!,
      )
      node.leave(buried).catch(() => undefined)
    }
    await poll(
      [...certain],
      this.#timeoutMs,
      (node) => node.leave(requests),
      () => false,
    )
  }

  #send(requests: readonly LeaveRequest[]): void {
    for (const node of this.#nodes) if (node.opened) node.leave(requests).catch(() => undefined)
  }

  // A server that lost a ticket gets it again. It does not count for this renewal: while it was gone, another could
  // have held and left, with a higher fence than ours.
  #repair(node: Node, { answer }: Vote<Standing[]>, holds: readonly { entry: Entry; ttlMs: number }[]): void {
    const missing = holds.filter(({ entry }, i) => !entry.left && answer[i]!.state === 'gone')
    if (missing.length === 0) return
    const requests = missing.map(({ entry: { request, ticket, order }, ttlMs }) => {
      return { ...request, id: ticket, ttlMs, wait: false, takeover: false, floor: order! }
    })
    node.join(requests).catch(() => undefined)
  }

  #leaveOf({ request, ticket }: Entry, tombstoneMs: number): LeaveRequest {
    return { line: request.line, id: ticket, handle: ticket, keepMs: 0, tombstoneMs }
  }

  #nodeLeave(ticket: LeaveRequest, entry: Entry | undefined, node: Node): LeaveRequest {
    // Not a ticket of this client: an eviction, by the id that `view` showed.
    if (entry === undefined) return ticket
    const tombstoneMs = entry.silent.has(node) ? Math.max(TOMBSTONE_MS, ticket.tombstoneMs) : ticket.tombstoneMs
    const { handle: _handle, ...rest } = ticket
    return { ...rest, id: entry.ticket, tombstoneMs, ...(ticket.handle === undefined ? {} : { handle: entry.ticket }) }
  }

  #no(votes: Tally, won: boolean, wait: boolean): Standing {
    if (votes.gone.length >= this.#majority) return { state: 'gone' }
    // Too few could say anything at all: that is no "no". Who waits asks again in any case; who does not is only
    // refused when those that said no leave no majority to the rest.
    const answered = votes.yes.size + votes.no.length
    const open = wait ? answered < this.#majority : this.#nodes.length - votes.no.length >= this.#majority
    if (won || open) return { state: 'failed', error: this.noMajority('join a line', votes) }
    return { state: 'refused' }
  }
}
