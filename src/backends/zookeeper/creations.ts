import type { JoinRequest } from '../../core/backend.js'
import type { ZooKeeperClient } from './client/client.js'
import { CODE, type ZooKeeperError } from './client/errors.js'
import { type Acl, MODE } from './client/protocol.js'
import { createTogether, type Creation } from './client/together.js'
import type { Doubts } from './doubts.js'
import { HolderEncoder } from './holder.js'
import type { LocalLine } from './local-line.js'
import { nodePrefix } from './names.js'
import type { OwnTicket } from './own-ticket.js'
import type { Tickets } from './tickets.js'

export interface CreationsParts {
  readonly client: ZooKeeperClient
  readonly tickets: Tickets
  readonly doubts: Doubts
  readonly acl: readonly Acl[]
}

/** What became of a creation. Neither an error nor a ticket: the line's parent is missing. */
export type Answer = (error: ZooKeeperError | undefined, ticket: OwnTicket | undefined) => void

/** The nodes that are made for requests: sent, noted as tickets when answered, and as doubts when not. */
export class Creations {
  readonly #parts: CreationsParts
  readonly #holders = new HolderEncoder()

  constructor(parts: CreationsParts) {
    this.#parts = parts
  }

  /**
   * Sends the creations, as one transaction where they are of different lines: the nodes of a transaction share
   * a czxid, and two tickets of one line must not.
   */
  send(requests: readonly JoinRequest[], lines: readonly LocalLine[], answers: readonly Answer[]): void {
    const { client, acl } = this.#parts
    const crowded = lines.length > 1 ? crowdedPaths(lines) : undefined
    const together: Creation[] = []
    for (const [index, request] of requests.entries()) {
      const { path } = lines[index]!
      const answer = answers[index]!
      const creation: Creation = {
        op: 'create',
        path: this.prefix(request, path),
        data: this.#holders.encode(request),
        acl,
        mode: MODE.ephemeralSequential,
        reply: (error, node) => {
          if (error === undefined) answer(undefined, this.created(request, node!.path, node!.czxid))
          else answer(error.code === CODE.noNode ? undefined : this.#unanswered(request, error), undefined)
        },
      }
      if (crowded?.has(path) === true) createTogether(client, [creation])
      else together.push(creation)
    }
    if (together.length > 0) createTogether(client, together)
  }

  /** The path of a ticket's node, less its number. */
  prefix({ line, id, weight, capacity }: JoinRequest, path: string): string {
    return `${path}/${nodePrefix(line.kind, id, weight, capacity)}`
  }

  /** Notes a node that was created for the request. */
  created(request: JoinRequest, path: string, czxid: bigint): OwnTicket {
    const ticket = this.#parts.tickets.stand(request, path, czxid)
    this.#parts.doubts.settle(request.id)
    return ticket
  }

  #unanswered(request: JoinRequest, error: ZooKeeperError): ZooKeeperError {
    if (error.code === CODE.connectionLoss && error.sent) this.#parts.doubts.add(request.id, request.line)
    return error
  }
}

/** The paths of lines that get more than one ticket at a time. */
function crowdedPaths(lines: readonly LocalLine[]): Set<string> {
  const [seen, crowded] = [new Set<string>(), new Set<string>()]
  for (const { path } of lines) {
    if (seen.has(path)) crowded.add(path)
    seen.add(path)
  }
  return crowded
}
