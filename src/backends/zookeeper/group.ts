import type { JoinRequest, Standing } from '../../core/backend.js'
import { answered } from './client/client.js'
import { CODE, ZooKeeperError } from './client/errors.js'
import { MODE, type MultiResult, type MultiStep } from './client/protocol.js'
import { encodeHolder } from './holder.js'
import type { JoinParts, Joins } from './join.js'
import type { LocalLine, OwnTicket } from './local-line.js'

const MOST_TRIES = 20

/**
 * Several lines in one step: the tickets are created in one transaction, so of two groups one comes first in
 * all lines that they share. When not all of them are granted, they are taken back before the answer.
 */
export class Groups {
  readonly #parts: JoinParts
  readonly #joins: Joins

  constructor(parts: JoinParts, joins: Joins) {
    this.#parts = parts
    this.#joins = joins
  }

  /** All granted, or none stands. */
  async join(requests: readonly JoinRequest[], calledAt: number): Promise<Standing[]> {
    const { tickets } = this.#parts
    const refused = requests.map((): Standing => ({ state: 'refused' }))
    const before = await this.#before(requests)
    if (before === undefined) {
      const rooms = await Promise.all(requests.map((request) => this.#joins.hasRoom(request)))
      if (rooms.includes(false)) return refused
    }
    const lines = requests.map((request) => tickets.use(request.line, this.#joins.path(request)))
    try {
      const stood = before ?? (await this.#stand(requests, lines))
      if (stood.some(({ state }) => state === 'lost')) throw new ZooKeeperError(CODE.sessionExpired, 'group')
      if (stood.every(({ state }) => state === 'granted')) {
        return stood.map((ticket) => tickets.standing(ticket, calledAt))
      }
      await Promise.all(stood.map((ticket) => this.#joins.undo(ticket)))
      return refused
    } finally {
      for (const line of lines) tickets.release(line)
    }
  }

  /** The tickets of an earlier try of this group whose answer was lost. What is not whole is removed. */
  async #before(requests: readonly JoinRequest[]): Promise<OwnTicket[] | undefined> {
    const { tickets, doubts } = this.#parts
    const known = await Promise.all(
      requests.map(async (request) => {
        const ticket = tickets.get(request.id)
        return ticket === undefined && doubts.get(request.id) !== undefined ? await this.#joins.find(request) : ticket
      }),
    )
    const found = known.filter((ticket) => ticket !== undefined)
    if (found.length === requests.length) return found
    await Promise.all(found.map((ticket) => this.#joins.undo(ticket)))
    return undefined
  }

  async #stand(requests: readonly JoinRequest[], lines: readonly LocalLine[]): Promise<OwnTicket[]> {
    let nodePaths: string[] | undefined
    for (let tries = 1; nodePaths === undefined; tries += 1) {
      if (tries > MOST_TRIES) throw new ZooKeeperError(CODE.noNode, 'group')
      // One after the other: they may share folders.
      if (tries > 1) for (const { path } of lines) await this.#parts.parents.missing(path)
      nodePaths = await this.#create(requests, lines)
    }
    try {
      const adopting = nodePaths.map((nodePath, index) =>
        this.#joins.adopt(requests[index]!, lines[index]!.path, nodePath),
      )
      const listed = this.#joins.list(lines)
      const stood = (await Promise.all(adopting)).filter((ticket) => ticket !== undefined)
      await Promise.all(listed.values())
      if (stood.length === requests.length) return stood
    } catch (error) {
      this.#doubt(requests)
      throw error
    }
    // Somebody has evicted one of them already.
    this.#doubt(requests)
    throw new ZooKeeperError(CODE.noNode, 'group')
  }

  /** The paths of the nodes; undefined when a parent is missing. */
  async #create(requests: readonly JoinRequest[], lines: readonly LocalLine[]): Promise<string[] | undefined> {
    const { client, parents, acl } = this.#parts
    for (const { path } of lines) parents.expect(path)
    const steps = requests.map((request, index): MultiStep => {
      const path = this.#joins.prefix(request, lines[index]!.path)
      return { op: 'create', path, data: encodeHolder(request), acl, mode: MODE.ephemeralSequential }
    })
    try {
      const results = await answered<MultiResult[]>((reply) => client.multi(steps, reply))
      return results.map((result) => (result.op === 'create' ? result.path : ''))
    } catch (error) {
      if (!(error instanceof ZooKeeperError)) throw error
      if (error.code === CODE.noNode) return undefined
      if (error.code === CODE.connectionLoss && error.sent) this.#doubt(requests)
      throw error
    }
  }

  #doubt(requests: readonly JoinRequest[]): void {
    for (const { id, line } of requests) this.#parts.doubts.add(id, line)
  }
}
