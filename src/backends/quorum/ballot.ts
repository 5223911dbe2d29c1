import type { JoinRequest, LeaveRequest, Standing } from '../../core/backend.js'
import type { BackendError } from '../../core/errors.js'
import { TOMBSTONE_MS } from './debts.js'
import type { Entry } from './entry.js'
import type { Floors } from './floors.js'
import { brokenOff, leaveAgain, leaveOf, missed, nodeLeave } from './leaves.js'
import { noMajority } from './no-majority.js'
import type { Node } from './node.js'
import { type Answers, poll, type Vote } from './poll.js'
import { agreedOrder, isDecided, isSettled, type Tally, tally } from './tally.js'

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
    const answers = await poll(this.#nodes, this.#timeoutMs, {
      ask: (node) => node.join(requests),
      decided: (soFar) => this.#allSettled(soFar, entries.length),
      answered: (node, { answer }) => leaveAgain(node, entries, requests, answer),
      failed: (node) => brokenOff(node, entries, requests),
      late: (node) => {
        for (const entry of entries) entry.silent.add(node)
      },
    })
    const tookMs = performance.now() - sentAt
    const open: number[] = []
    const standings: Standing[] = []
    for (const [i, entry] of entries.entries()) {
      entry.tookMs = tookMs
      const order = agreedOrder(answers, i, this.#majority)
      if (order === undefined) open.push(i)
      else standings[i] = this.#granted(entry, order, sentAt)
    }
    if (open.length > 0) await this.#decide(entries, open, answers, standings, sentAt)
    return standings
  }

  /** Keeps held tickets alive on a majority that has had them all along, and puts them back where they were lost. */
  async extend(holds: readonly { entry: Entry; ttlMs: number }[]): Promise<Standing[]> {
    const sentAt = performance.now()
    const requests = holds.map(({ entry: { request, ticket }, ttlMs }) => {
      return { line: request.line, id: ticket, handle: ticket, ttlMs, waitTtlMs: ttlMs }
    })
    const answers = await poll(this.#nodes, this.#timeoutMs, {
      ask: (node) => node.renew(requests),
      decided: (soFar) => this.#allSettled(soFar, holds.length),
      answered: (node, { answer }) => this.#repair(node, answer, holds),
    })
    const gone: Entry[] = []
    const standings = holds.map(({ entry, ttlMs }, i): Standing => {
      const votes = tally(this.#nodes, answers, i)
      if (votes.yes.size >= this.#majority) {
        entry.until = sentAt + ttlMs
        return { state: 'granted', order: entry.order!, ttlMs }
      }
      if (!isDecided(votes, this.#majority) || votes.uncounted.length > 0) {
        return { state: 'failed', error: noMajority(this.#nodes, this.#majority, 'renew a ticket', votes) }
      }
      gone.push(entry)
      return { state: 'gone' }
    })
    // No majority has it: what stands on the others would only be in the way.
    if (gone.length > 0) this.#send(gone.map((entry) => leaveOf(entry, TOMBSTONE_MS)))
    return standings
  }

  /** Lets go on every server; true when a majority had it. */
  async leave(
    tickets: readonly LeaveRequest[],
    entryOf: (id: string) => Entry | undefined,
  ): Promise<(boolean | BackendError)[]> {
    const entries = tickets.map(({ id }) => entryOf(id))
    for (const entry of entries) if (entry !== undefined) entry.left = true
    const had = entries.map((entry) => entry?.released ?? new Set<Node>())
    const requestsTo = (node?: Node): LeaveRequest[] => tickets.map((ticket, i) => nodeLeave(ticket, entries[i], node))
    // Mostly the same for all servers.
    const same = entries.every((entry) => entry === undefined || entry.silent.size === 0) ? requestsTo() : undefined
    const answers = await poll(this.#nodes, this.#timeoutMs, {
      ask: (node) => node.leave(same ?? requestsTo(node)),
      answered: (node, { answer }) => {
        for (let i = 0; i < had.length; i += 1) {
          const entry = entries[i]
          if (answer[i] === true) had[i]!.add(node)
          else if (entry === undefined) continue
          else if (answer[i] === false) missed(node, entry, entry.ticket)
          else node.owe([nodeLeave(tickets[i]!, entry, node)])
        }
      },
      failed: (node) => node.owe(requestsTo(node).filter((_, i) => entries[i] !== undefined)),
      decided: () => had.every((set) => set.size >= this.#majority),
    })
    return had.map((set, i) => {
      if (set.size >= this.#majority) return true
      const rid = this.#nodes.filter((node) => set.has(node) || isAnswered(answers.get(node), i))
      // Free for others, though not all say that it stood there until now: a first leave may have done it, unheard of.
      if (rid.length >= this.#majority) return false
      return noMajority(this.#nodes, this.#majority, 'leave a line', { answers })
    })
  }

  #nodeRequest(request: JoinRequest, id: string): JoinRequest {
    const { line, weight, capacity, ttlMs, waitTtlMs, holder, takeover } = request
    // Nobody waits on the servers: two that are first on different ones would wait for each other.
    const wait = false
    // Named one by one: to copy the rest took longer than all that is done with it here.
    return { line, id, weight, capacity, wait, ttlMs, waitTtlMs, holder, takeover, floor: this.#floors.next() }
  }

  #allSettled(answers: Answers<Standing[]>, count: number): boolean {
    for (let i = 0; i < count; i += 1) {
      if (!isSettled(this.#nodes.length, answers, i, this.#majority)) return false
    }
    return true
  }

  #granted(entry: Entry, order: bigint, sentAt: number): Standing {
    const { ttlMs } = entry.request
    this.#floors.seen(order)
    entry.order = order
    entry.until = sentAt + ttlMs
    return { state: 'granted', order, ttlMs }
  }

  // Those on which the voters did not agree at once: brought to agree, or undone.
  async #decide(
    entries: readonly Entry[],
    open: readonly number[],
    answers: Answers<Standing[]>,
    standings: Standing[],
    sentAt: number,
  ): Promise<void> {
    const undecided = open.map((i) => ({ i, entry: entries[i]!, votes: tally(this.#nodes, answers, i) }))
    const won = undecided.filter(({ votes }) => votes.yes.size >= this.#majority)
    const orders = won.length === 0 ? undefined : await this.#writeBack(won)
    const lost = undecided.filter(({ entry }) => orders?.get(entry) === undefined)
    if (lost.length > 0) await this.#undo(lost)
    for (const { i, entry, votes } of undecided) {
      const order = orders?.get(entry)
      standings[i] = order === undefined ? this.#no(votes, entry.request.wait) : this.#granted(entry, order, sentAt)
    }
  }

  // The second round: where the voters gave different orders, the highest is written back to a majority, so that
  // every later majority meets it. Left out are those whose order could not be written.
  async #writeBack(won: readonly { entry: Entry; votes: Tally }[]): Promise<Map<Entry, bigint>> {
    const highest = won.map(({ votes }) =>
      [...votes.yes.values()].reduce((most, order) => (order > most ? order : most)),
    )
    const agreed = won.map(({ votes: { yes } }, i) => {
      return new Set([...yes.keys()].filter((node) => yes.get(node) === highest[i]))
    })
    for (const order of highest) this.#floors.seen(order)
    const requests = won.map(({ entry: { request, ticket } }, i) => {
      const { ttlMs, waitTtlMs, line } = request
      return { line, id: ticket, handle: ticket, ttlMs, waitTtlMs, floor: highest[i]! }
    })
    const voters = this.#nodes.filter((node) => won.some(({ votes }) => votes.yes.has(node)))
    await poll(voters, this.#timeoutMs, {
      ask: (node) => node.renew(requests),
      answered: (node, { answer, counts }) => {
        for (const [i, standing] of answer.entries()) {
          if (counts && standing.state === 'granted' && standing.order === highest[i]) agreed[i]!.add(node)
        }
      },
      decided: () => agreed.every((set) => set.size >= this.#majority),
    })
    // The guess was off: ask the clocks again, in the background.
    for (const node of this.#nodes) if (node.unfit === undefined) node.origin().catch(() => undefined)
    return new Map(won.flatMap(({ entry }, i) => (agreed[i]!.size >= this.#majority ? [[entry, highest[i]!]] : [])))
  }

  // Before the next try: where a server said yes, its answer is waited for; where it said nothing, the leave is at
  // least sent behind the join, or owed where the connection broke. One that was too slow gets a tombstone with it: a
  // join that takes two messages is overtaken by its leave, and would be in the way of the next try.
  async #undo(lost: readonly { entry: Entry; votes: Tally }[]): Promise<void> {
    for (const { entry } of lost) entry.undone = true
    const requests = lost.map(({ entry }) => leaveOf(entry, 0))
    const certain = new Set(lost.flatMap(({ votes: { yes, uncounted } }) => [...yes.keys(), ...uncounted]))
    const rest = this.#nodes.filter(
      (node) => !certain.has(node) && lost.some(({ votes }) => votes.unknown.includes(node)),
    )
    for (const node of rest) {
      const buried = lost.map(({ entry }, i) => {
        return entry.silent.has(node) ? { ...requests[i]!, tombstoneMs: TOMBSTONE_MS } : requests[i]!
      })
      void this.#takeBack(node, lost, buried)
    }
    await poll([...certain], this.#timeoutMs, { ask: (node) => this.#takeBack(node, lost, requests) })
  }

  async #takeBack(
    node: Node,
    lost: readonly { readonly entry: Entry }[],
    leaves: readonly LeaveRequest[],
  ): Promise<void> {
    const answers = await node.leaveAtLast(leaves)
    for (const [i, { id }] of leaves.entries()) if (answers[i] === false) missed(node, lost[i]!.entry, id)
  }

  #send(requests: readonly LeaveRequest[]): void {
    for (const node of this.#nodes) void node.leaveAtLast(requests)
  }

  // A server that lost a ticket gets it again. It does not count for this renewal: while it was gone, another could
  // have held and left, with a higher fence than ours.
  #repair(node: Node, answer: readonly Standing[], holds: readonly { entry: Entry; ttlMs: number }[]): void {
    const missing = holds.filter(({ entry }, i) => !entry.left && answer[i]!.state === 'gone')
    if (missing.length === 0) return
    const requests = missing.map(({ entry: { request, ticket, order }, ttlMs }) => {
      return { ...request, id: ticket, ttlMs, wait: false, takeover: false, floor: order! }
    })
    const entries = missing.map(({ entry }) => entry)
    node.join(requests).then(
      (standings) => leaveAgain(node, entries, requests, standings),
      () => brokenOff(node, entries, requests),
    )
  }

  #no(votes: Tally, wait: boolean): Standing {
    if (votes.gone.length >= this.#majority) return { state: 'gone' }
    // Too few could say anything at all: that is no "no". Who waits asks again in any case; who does not is only
    // refused when those that said no leave no majority to the rest.
    const answered = votes.yes.size + votes.no.length
    const open = wait ? answered < this.#majority : this.#nodes.length - votes.no.length >= this.#majority
    const won = votes.yes.size >= this.#majority
    if (!won && !open) return { state: 'refused' }
    return { state: 'failed', error: noMajority(this.#nodes, this.#majority, 'join a line', votes) }
  }
}

function isAnswered(vote: Vote<(boolean | BackendError)[]> | Error | undefined, item: number): boolean {
  return vote !== undefined && !(vote instanceof Error) && typeof vote.answer[item] === 'boolean'
}
