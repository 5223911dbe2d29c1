import type { JoinRequest } from '../../core/backend.js'
import { grantedCount } from '../../core/line.js'
import { found, type ZooKeeperClient } from './client/client.js'
import type { Doubts } from './doubts.js'
import { readNodes, unheard } from './look.js'
import { bySeq, linePath, type Node, type Places } from './names.js'
import type { Tickets } from './tickets.js'

export interface RoomParts {
  readonly client: ZooKeeperClient
  readonly tickets: Tickets
  readonly doubts: Doubts
  readonly places: Places
}

/** Whether a line has room, for those who only try: where it has none, they are told so without standing in it. */
export class Room {
  readonly #parts: RoomParts

  constructor(parts: RoomParts) {
    this.#parts = parts
  }

  /** Whether a ticket that came now would be granted, as far as a look can tell. */
  async isFor(request: JoinRequest): Promise<boolean> {
    const { client, tickets, doubts, places } = this.#parts
    const path = linePath(places, request.line)
    // Those before may be dropped yet; and of a line that only we use there is nothing to read.
    if (request.takeover || tickets.isFree(request.line)) return true
    if (fits(request, await this.#nodes(request, path))) return true
    // What an earlier call of ours left behind unanswered, and nobody wants, keeps nobody out for long; nor us.
    const over = new Set(doubts.over().map(([id]) => id))
    // The server may be behind, and show who has left: before it is said that others hold it, it has to catch up.
    this.#catchUp(path)
    const nodes = await this.#nodes(request, path)
    if (fits(request, nodes)) return true
    const leftovers = nodes.filter(({ id }) => over.has(id))
    if (leftovers.length === 0) return false
    await Promise.all(leftovers.map(({ name }) => found<true>((reply) => client.delete(`${path}/${name}`, reply))))
    return fits(request, await this.#nodes(request, path))
  }

  /**
   * What is read next shows all that anyone was told of before. A `sync` does that at a follower only: a leader
   * answers it at once, and may itself be behind a follower that has done, and answered, what the leader had committed:
   *
   *   follower: deletes the holder's node, and says so
   *   leader:   sync, answered; list: the holder still stands; the deletion is done
   *
   * A write is done by every server in its turn, also one that fails, and what its session asks next waits for it.
   */
  #catchUp(path: string): void {
    this.#parts.client.delete(`${path}/none`, unheard)
  }

  async #nodes({ line }: JoinRequest, path: string): Promise<Node[]> {
    return (await readNodes(this.#parts.client, line.kind, path)).sort(bySeq)
  }
}

/** Whether there is room for a ticket behind these. */
function fits(request: JoinRequest, nodes: readonly Node[]): boolean {
  return grantedCount([...nodes, request]) === nodes.length + 1
}
