import type { JoinRequest, Standing } from '../../core/backend.js'
import { answered, type ZooKeeperClient } from './client/client.js'
import type { Doubts } from './doubts.js'
import type { Earlier } from './earlier.js'
import { failure } from './failures.js'
import type { Groups } from './group.js'
import type { Joins } from './join.js'
import type { Leaving } from './leaving.js'
import type { OwnTicket } from './own-ticket.js'
import type { Tickets } from './tickets.js'
import type { Tombstones } from './tombstones.js'

export interface JoiningParts {
  readonly client: ZooKeeperClient
  readonly tickets: Tickets
  readonly doubts: Doubts
  readonly tombstones: Tombstones
  readonly earlier: Earlier
  readonly joins: Joins
  readonly groups: Groups
  readonly leaving: Leaving
}

/** The joins of one client, by their ids: an id that comes again is never given a second ticket. */
export class Joining {
  readonly #parts: JoiningParts
  readonly #underWay = new Map<string, Promise<unknown>>()

  constructor(parts: JoiningParts) {
    this.#parts = parts
  }

  /** Settles when no join of this id is under way; undefined: none is. */
  underWay(id: string): Promise<unknown> | undefined {
    return this.#underWay.get(id)
  }

  join(requests: readonly JoinRequest[], calledAt: number): Promise<Standing[]> {
    const standings = Promise.all(this.#join(requests, calledAt))
    for (const { id } of requests) this.#underWay.set(id, standings)
    void standings.then(() => {
      for (const { id } of requests) if (this.#underWay.get(id) === standings) this.#underWay.delete(id)
    })
    return standings
  }

  #join(requests: readonly JoinRequest[], calledAt: number): Promise<Standing>[] {
    if (requests.every((request) => this.#isPlain(request))) return this.#parts.joins.stand(requests, calledAt)
    const standings = new Map<JoinRequest, Promise<Standing>>()
    const plain: JoinRequest[] = []
    const groups = new Map<string, JoinRequest[]>()
    for (const request of requests) {
      const known = request.group === undefined ? this.#known(request, calledAt) : undefined
      if (known !== undefined) standings.set(request, known)
      else if (request.group !== undefined) groups.set(request.group, [...(groups.get(request.group) ?? []), request])
      else if (!request.wait) standings.set(request, failing(this.#try(request, calledAt)))
      else if (request.takeover) standings.set(request, failing(this.#takeOver(request, calledAt)))
      else plain.push(request)
    }
    const stood = this.#parts.joins.stand(plain, calledAt)
    for (const [index, standing] of stood.entries()) standings.set(plain[index]!, standing)
    for (const group of groups.values()) {
      const together = this.#joinGroup(group, calledAt)
      for (const [index, request] of group.entries()) {
        standings.set(request, failing(together.then((answers) => answers[index]!)))
      }
    }
    return requests.map((request) => standings.get(request)!)
  }

  /** Whether nothing but a ticket at the end of the line is asked for, under an id that was never seen. */
  #isPlain({ id, group, wait, takeover }: JoinRequest): boolean {
    if (group !== undefined || !wait || takeover) return false
    return !this.#isKnown(id) && !this.#underWay.has(id) && !this.#parts.tombstones.has(id)
  }

  #isKnown(id: string): boolean {
    return this.#parts.tickets.get(id) !== undefined || this.#parts.doubts.get(id) !== undefined
  }

  /** The answer for an id that was seen before. */
  #known(request: JoinRequest, calledAt: number): Promise<Standing> | undefined {
    const { id } = request
    if (this.#parts.tombstones.has(id)) return Promise.resolve({ state: 'gone' })
    const before = this.#underWay.get(id)
    if (before !== undefined) return failing(before.then(() => this.#joinAgain(request, calledAt)))
    return this.#isKnown(id) ? failing(this.#joinAgain(request, calledAt)) : undefined
  }

  /** Joins under an id whose earlier join may have been done. */
  async #joinAgain(request: JoinRequest, calledAt: number): Promise<Standing> {
    const { client, tickets, earlier, joins, leaving } = this.#parts
    let ticket: OwnTicket | undefined = tickets.get(request.id)
    ticket ??= await earlier.find(request)
    if (ticket?.leaving === true) {
      // It was being taken back when the connection broke. That it goes is no news to anyone, so it cannot be held.
      await leaving.delete(ticket)
      ticket = undefined
    }
    if (ticket === undefined) {
      if (!request.wait) return await this.#try(request, calledAt)
      return await joins.stand([request], calledAt)[0]!
    }
    if (ticket.state === 'standing') {
      ticket.line.refresh()
      await answered((reply) => client.sync(reply))
    }
    if (ticket.state === 'granted' || request.wait) return tickets.standing(ticket, calledAt)
    await leaving.delete(ticket)
    return { state: 'refused' }
  }

  async #joinGroup(requests: readonly JoinRequest[], calledAt: number): Promise<Standing[]> {
    const { tombstones, earlier, groups } = this.#parts
    if (requests.some(({ id }) => tombstones.has(id))) return requests.map(() => ({ state: 'gone' }))
    // A copy of the call may be under way still.
    const before = requests.map(({ id }) => this.#underWay.get(id))
    // All are looked up at once: a moment later this very call is the one under way.
    for (const one of before) await one
    for (const request of requests) if (request.takeover) await earlier.takeOver(request)
    return await groups.join(requests, calledAt)
  }

  async #try(request: JoinRequest, calledAt: number): Promise<Standing> {
    const { earlier, joins } = this.#parts
    if (request.takeover) await earlier.takeOver(request)
    return await joins.try(request, calledAt)
  }

  async #takeOver(request: JoinRequest, calledAt: number): Promise<Standing> {
    const { earlier, joins } = this.#parts
    await earlier.takeOver(request)
    return await joins.stand([request], calledAt)[0]!
  }
}

function failing(standing: Promise<Standing>): Promise<Standing> {
  return standing.catch((error: unknown): Standing => ({ state: 'failed', error: failure(error, 'join the line') }))
}
