import type { JoinRequest, Standing } from '../../core/backend.js'
import { found, type ZooKeeperClient } from './client/client.js'
import { CODE, ZooKeeperError } from './client/errors.js'
import type { Answer, Creations } from './creations.js'
import { failure } from './failures.js'
import type { LineLists } from './line-lists.js'
import type { LocalLine } from './local-line.js'
import type { OwnTicket } from './own-ticket.js'
import type { Parents } from './parents.js'
import type { Room } from './room.js'
import type { Tickets } from './tickets.js'

/** A parent may be removed between making it and standing below it; so often in a row it is not by chance. */
const MOST_TRIES = 20

export interface JoinParts {
  readonly client: ZooKeeperClient
  readonly tickets: Tickets
  readonly parents: Parents
  readonly creations: Creations
  readonly lists: LineLists
  readonly room: Room
}

/** What a creation's answer told, where that was not all. */
interface FirstAnswer {
  readonly request: JoinRequest
  readonly line: LocalLine
  readonly error: ZooKeeperError | undefined
  readonly ticket: OwnTicket | undefined
  /** The list that was sent behind it, if any. */
  readonly list: Promise<void> | undefined
  readonly calledAt: number
}

/** Standing in line: one ephemeral sequential node a ticket. */
export class Joins {
  readonly #parts: JoinParts

  constructor(parts: JoinParts) {
    this.#parts = parts
  }

  /**
   * Stands in line and says where. Creations and the list that follows them go out together: the server does
   * them in their order, so the answer costs one round trip.
   */
  stand(requests: readonly JoinRequest[], calledAt: number): Promise<Standing>[] {
    const { tickets, parents, creations, lists } = this.#parts
    const lines = requests.map((request) => tickets.use(request.line))
    const again = lines.map(({ path }) => parents.expect(path))
    const answers: Answer[] = []
    const standings = requests.map(
      (request, index) =>
        new Promise<Standing>((resolve) => {
          const line = lines[index]!
          answers.push((error, ticket) => {
            // Judged at once, as a rule; else it takes another question.
            if (ticket === undefined || ticket.state === 'standing') {
              return resolve(this.#settled({ request, line, error, ticket, list: listed.get(line), calledAt }))
            }
            tickets.release(line)
            resolve(tickets.standing(ticket, calledAt))
          })
        }),
    )
    creations.send(requests, lines, answers)
    for (const [index, line] of lines.entries()) if (again[index]) line.keep()
    // While a list is under way, what comes right behind it is judged by that one: see `LocalLine.stand`.
    const listed = lists.each(lines.filter((line) => !line.quiet && !line.asking))
    return standings
  }

  /** Stands only where the line, as just read, has room; and not at all when somebody was quicker. */
  async try(request: JoinRequest, calledAt: number): Promise<Standing> {
    if (!(await this.#parts.room.isFor(request))) return { state: 'refused' }
    const [standing] = await Promise.all(this.stand([request], calledAt))
    if (standing!.state !== 'waiting') return standing!
    const ticket = this.#parts.tickets.get(request.id)
    if (ticket !== undefined) await this.undo(ticket)
    return { state: 'refused' }
  }

  /** Takes a ticket back that stood for a moment. */
  async undo(ticket: OwnTicket): Promise<void> {
    ticket.leaving = true
    await found<true>((reply) => this.#parts.client.delete(ticket.path, reply))
    this.#parts.tickets.drop(ticket)
  }

  /** The standing of a ticket that its creation's answer alone did not tell. */
  async #settled(first: FirstAnswer): Promise<Standing> {
    const { request, line, calledAt } = first
    try {
      const ticket = await this.#stoodAtLast(first)
      // Nobody was expected to come between, but somebody did.
      for (let tries = 1; ticket.state === 'standing'; tries += 1) {
        if (tries > MOST_TRIES) throw new ZooKeeperError(CODE.connectionLoss, line.path)
        // As it is known now: a session that ended meanwhile has taken the old knowledge with it.
        await this.#parts.lists.once(this.#parts.tickets.line(request.line))
      }
      return this.#parts.tickets.standing(ticket, calledAt)
    } catch (error) {
      return { state: 'failed', error: failure(error, `join the line at ${line.path}`) }
    } finally {
      this.#parts.tickets.release(line)
    }
  }

  /** The ticket, once it was created and the list behind it read. */
  async #stoodAtLast({ request, line, error, ticket, list }: FirstAnswer): Promise<OwnTicket> {
    const { parents, creations, lists } = this.#parts
    if (error !== undefined) throw error
    for (let tries = 1; ticket === undefined; tries += 1) {
      if (tries > MOST_TRIES) throw new ZooKeeperError(CODE.noNode, line.path)
      await parents.missing(line.path)
      parents.expect(line.path)
      const again = new Promise<OwnTicket | undefined>((resolve, reject) => {
        creations.send([request], [line], [(failed, stood) => (failed === undefined ? resolve(stood) : reject(failed))])
      })
      list = lists.each([line]).get(line)
      ticket = await again
    }
    await list
    return ticket
  }
}
