import type { LeaveRequest } from '../../core/backend.js'
import type { BackendError } from '../../core/errors.js'
import type { LineKey } from '../../core/line.js'
import { found, type ZooKeeperClient } from './client/client.js'
import { CODE, type ZooKeeperError } from './client/errors.js'
import { type Deletion, deleteTogether } from './client/together.js'
import type { Doubts } from './doubts.js'
import { failure } from './failures.js'
import type { OwnTicket } from './own-ticket.js'
import type { Look } from './look.js'
import type { Online } from './online.js'
import type { Tickets } from './tickets.js'
import { ASKED_AGAIN_MS, Tombstones } from './tombstones.js'

export interface LeavingParts {
  readonly client: ZooKeeperClient
  readonly tickets: Tickets
  readonly doubts: Doubts
  readonly look: Look
  readonly online: Online
}

/** Leaving the line: the ticket's node is deleted, and whoever is next among ours is judged in the same breath. */
export class Leaving {
  readonly #parts: LeavingParts
  /** Tickets that went behind the back of those who asked for it: asked again, they are told yes. */
  readonly #tidied = new Tombstones()

  constructor(parts: LeavingParts) {
    this.#parts = parts
  }

  /** Notes that nobody wants this ticket, also where no server can be told now: then it goes once one can. */
  giveUp(id: string): void {
    const ticket = this.#parts.tickets.get(id)
    if (ticket !== undefined) ticket.unwanted = true
    const doubt = this.#parts.doubts.get(id)
    if (doubt !== undefined) doubt.over = true
  }

  /** The nodes go in one transaction. A ticket whose join is still under way leaves after that, and holds up nobody else. */
  leave(
    requests: readonly LeaveRequest[],
    joining: (id: string) => Promise<unknown> | undefined,
  ): Promise<boolean | BackendError>[] {
    const together: Deletion[] = []
    const left = requests.map((request) => {
      const arriving = joining(request.id)
      const leaving =
        arriving === undefined ? this.#leave(request, together) : arriving.then(() => this.#leave(request))
      return leaving.catch((error: unknown) => failure(error, 'leave the line'))
    })
    deleteTogether(this.#parts.client, together)
    return left
  }

  /** What nobody wants goes, now that a server can be told. */
  tidy(tickets: Iterable<OwnTicket>): void {
    for (const ticket of tickets) {
      if (!ticket.unwanted) continue
      const noted = (left: boolean): void => void (left && this.#tidied.bury(ticket.id, ASKED_AGAIN_MS))
      this.delete(ticket).then(noted, ignore)
    }
  }

  /** The same for creations of which it is not known whether they were done. */
  tidyDoubts(doubts: Iterable<readonly [string, LineKey]>): void {
    for (const [id, line] of doubts) void this.#search(line, id).catch(ignore)
  }

  /**
   * True when the node was there, or when an earlier delete of ours may have been what removed it.
   * `together`: the delete is to be sent with these.
   */
  delete(ticket: OwnTicket, together?: Deletion[], last = false): Promise<boolean> {
    const { client, tickets } = this.#parts
    const again = ticket.leaving
    ticket.leaving = true
    return new Promise((resolve) => {
      const reply: Deletion['reply'] = (error) => {
        if (error !== undefined && error.code !== CODE.noNode) return resolve(this.#unanswered(ticket, error, last))
        // In the very order of the answers: whoever is next among ours is judged by what is known now.
        tickets.drop(ticket)
        resolve(error === undefined || again)
      }
      if (together === undefined) client.delete(ticket.path, reply)
      else together.push({ op: 'delete', path: ticket.path, version: -1, reply })
    })
  }

  /**
   * A delete whose answer is lost is asked for once more: as a rule the connection is back at once, or the
   * session is over and the node with it.
   */
  async #unanswered(ticket: OwnTicket, error: ZooKeeperError, last: boolean): Promise<boolean> {
    if (error.code === CODE.sessionExpired) return false
    if (last || error.code !== CODE.connectionLoss) throw error
    await this.#parts.online.soon('leave')
    if (this.#parts.tickets.get(ticket.id) !== ticket) return this.#tidied.has(ticket.id)
    return await this.delete(ticket, undefined, true)
  }

  async #leave({ line, id, handle }: LeaveRequest, together?: Deletion[]): Promise<boolean> {
    const ticket = this.#parts.tickets.get(id)
    if (ticket !== undefined && handle === undefined) return await this.#evict(ticket)
    if (ticket !== undefined) return handle === id && (await this.delete(ticket, together))
    // Neither ours nor possibly ours, and no eviction: it went with its session.
    if (handle !== undefined && this.#parts.doubts.get(id) === undefined) return this.#tidied.has(id)
    return await this.#search(line, id)
  }

  /** A ticket of this very client that somebody evicts: nobody here asked for it to go, so its holder is told. */
  async #evict(ticket: OwnTicket): Promise<boolean> {
    const deleted = await found<true>((reply) =>
      this.#parts.client.delete(ticket.path, (error, value) => {
        if (error === undefined || error.code === CODE.noNode) ticket.line.gone(ticket.node)
        reply(error, value)
      }),
    )
    return deleted === true
  }

  async #search(line: LineKey, id: string): Promise<boolean> {
    const removed = await this.#parts.look.remove(line, id)
    this.#parts.doubts.settle(id)
    return removed
  }
}

function ignore(): void {
  // Tried again after the next break: nothing but a break can make it fail.
}
