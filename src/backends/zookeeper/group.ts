import type { JoinRequest, Standing } from '../../core/backend.js'
import type { ZooKeeperClient } from './client/client.js'
import { CODE, ZooKeeperError } from './client/errors.js'
import { type Acl, MODE, type MultiResult, type MultiStep } from './client/protocol.js'
import { encodeHolder } from './holder.js'
import type { Creations } from './creations.js'
import type { Doubts } from './doubts.js'
import type { Earlier } from './earlier.js'
import type { Joins } from './join.js'
import type { LineLists } from './line-lists.js'
import type { LocalLine } from './local-line.js'
import type { OwnTicket } from './own-ticket.js'
import type { Parents } from './parents.js'
import type { Room } from './room.js'
import type { Tickets } from './tickets.js'

const MOST_TRIES = 20

export interface GroupsParts {
  readonly client: ZooKeeperClient
  readonly tickets: Tickets
  readonly parents: Parents
  readonly doubts: Doubts
  readonly acl: readonly Acl[]
  readonly creations: Creations
  readonly lists: LineLists
  readonly room: Room
  readonly earlier: Earlier
  readonly joins: Joins
}

/**
 * Several lines in one step: the tickets are created in one transaction, so of two groups one comes first in
 * all lines that they share. When not all of them are granted, they are taken back before the answer.
 */
export class Groups {
  readonly #parts: GroupsParts

  constructor(parts: GroupsParts) {
    this.#parts = parts
  }

  /** All granted, or none stands. */
  async join(requests: readonly JoinRequest[], calledAt: number): Promise<Standing[]> {
    const { tickets, room, joins } = this.#parts
    const refused = requests.map((): Standing => ({ state: 'refused' }))
    const before = await this.#before(requests)
    if (before === undefined) {
      const rooms = await Promise.all(requests.map((request) => room.isFor(request)))
      if (rooms.includes(false)) return refused
    }
    const lines = requests.map((request) => tickets.use(request.line))
    try {
      const stood = before ?? (await this.#stand(requests, lines))
      if (stood.some(({ state }) => state === 'lost')) throw new ZooKeeperError(CODE.sessionExpired, 'group')
      if (stood.every(({ state }) => state === 'granted')) {
        return stood.map((ticket) => tickets.standing(ticket, calledAt))
      }
      await Promise.all(stood.map((ticket) => joins.undo(ticket)))
      return refused
    } finally {
      for (const line of lines) tickets.release(line)
    }
  }

  /** The tickets of an earlier try of this group whose answer was lost. What is not whole is removed. */
  async #before(requests: readonly JoinRequest[]): Promise<OwnTicket[] | undefined> {
    const { tickets, doubts, earlier, lists, joins } = this.#parts
    const known = await Promise.all(
      requests.map(async (request) => {
        const ticket = tickets.get(request.id)
        return ticket === undefined && doubts.get(request.id) !== undefined ? await earlier.find(request) : ticket
      }),
    )
    const found = known.filter((ticket) => ticket !== undefined)
    // What was being taken back when the connection broke cannot be held: that it goes is no news to anyone.
    if (found.length === requests.length && !found.some(({ leaving }) => leaving)) {
      // Where the list behind their creation was lost too, nothing is known yet of who stands before them.
      const unseen = found.filter(({ state }) => state === 'standing').map(({ line }) => line)
      await Promise.all(lists.each(unseen).values())
      return found
    }
    await Promise.all(found.map((ticket) => joins.undo(ticket)))
    return undefined
  }

  async #stand(requests: readonly JoinRequest[], lines: readonly LocalLine[]): Promise<OwnTicket[]> {
    const { parents, lists } = this.#parts
    for (let tries = 1; tries <= MOST_TRIES; tries += 1) {
      // One after the other: they may share folders.
      if (tries > 1) for (const { path } of lines) await parents.missing(path)
      const creating = this.#create(requests, lines)
      const listed = lists.each(lines)
      const stood = await creating
      if (stood === undefined) continue
      await Promise.all(listed.values())
      return stood
    }
    throw new ZooKeeperError(CODE.noNode, 'group')
  }

  /** Undefined when a parent is missing. */
  #create(requests: readonly JoinRequest[], lines: readonly LocalLine[]): Promise<OwnTicket[] | undefined> {
    const { client, parents, acl, creations } = this.#parts
    for (const { path } of lines) parents.expect(path)
    const steps = requests.map((request, index): MultiStep => {
      const path = creations.prefix(request, lines[index]!.path)
      return { op: 'create', path, data: encodeHolder(request), acl, mode: MODE.ephemeralSequential }
    })
    return new Promise((resolve, reject) => {
      client.multi(steps, (error, results, zxid) => {
        if (error === undefined) {
          resolve(results!.map((result, index) => creations.created(requests[index]!, pathOf(result), zxid)))
        } else if (error.code === CODE.noNode) {
          resolve(undefined)
        } else {
          if (error.code === CODE.connectionLoss && error.sent) this.#doubt(requests)
          reject(error)
        }
      })
    })
  }

  #doubt(requests: readonly JoinRequest[]): void {
    for (const { id, line } of requests) this.#parts.doubts.add(id, line)
  }
}

function pathOf(result: MultiResult): string {
  return result.op === 'create' ? result.path : ''
}
