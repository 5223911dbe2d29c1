import type { JoinRequest } from '../../core/backend.js'
import { type Data, found, type ZooKeeperClient } from './client/client.js'
import type { Creations } from './creations.js'
import { decodeHolder } from './holder.js'
import type { LineLists } from './line-lists.js'
import { readNodes, unheard, unlessNoAuth } from './look.js'
import { linePath, type Node, type Places } from './names.js'
import type { OwnTicket } from './own-ticket.js'
import type { Tickets } from './tickets.js'

export interface EarlierParts {
  readonly client: ZooKeeperClient
  readonly tickets: Tickets
  readonly places: Places
  readonly creations: Creations
  readonly lists: LineLists
}

/** The tickets that a join may find standing: its own, of an earlier try, and its owner's, of an earlier life. */
export class Earlier {
  readonly #parts: EarlierParts

  constructor(parts: EarlierParts) {
    this.#parts = parts
  }

  /** Looks for a ticket whose creation was never answered. What an ended session left behind is not ours. */
  async find(request: JoinRequest): Promise<OwnTicket | undefined> {
    const { tickets, lists } = this.#parts
    const path = this.#path(request)
    for (const { id, name } of await this.#nodes(request, path)) {
      if (id !== request.id) continue
      const adopting = this.#adopt(request, `${path}/${name}`)
      const listed = lists.each([tickets.line(request.line)])
      const ticket = await adopting
      await Promise.all(listed.values())
      if (ticket !== undefined) return ticket
    }
    return undefined
  }

  /** Takes up a node as the request's ticket, unless it is gone or another session's. A list must follow. */
  #adopt(request: JoinRequest, path: string): Promise<OwnTicket | undefined> {
    const { client, creations } = this.#parts
    return new Promise((resolve, reject) => {
      client.exists(path, undefined, (error, stat) => {
        if (error !== undefined) reject(error)
        else if (stat === undefined || stat.ephemeralOwner !== client.session.id) resolve(undefined)
        else resolve(creations.created(request, path, stat.czxid))
      })
    })
  }

  /** Drops the owner's tickets of other clients. */
  async takeOver(request: JoinRequest): Promise<void> {
    const { client } = this.#parts
    const path = this.#path(request)
    const nodes = await this.#nodes(request, path)
    await Promise.all(
      nodes.map(async ({ name }) => {
        // One that this user may not read is another's, as far as can be told.
        const read = await found<Data>((reply) => client.getData(`${path}/${name}`, undefined, reply)).catch(
          unlessNoAuth(undefined),
        )
        const holder = read === undefined ? undefined : decodeHolder(read.data)
        if (holder?.owner !== request.holder.owner || holder.client === request.holder.client) return
        await found<true>((reply) => client.delete(`${path}/${name}`, reply))
      }),
    )
  }

  #path(request: JoinRequest): string {
    return linePath(this.#parts.places, request.line)
  }

  /** All that were committed: the server that is asked may be behind, and has to catch up first. */
  #nodes({ line }: JoinRequest, path: string): Promise<Node[]> {
    const { client } = this.#parts
    client.sync(unheard)
    return readNodes(client, line.kind, path)
  }
}
