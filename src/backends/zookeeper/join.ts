import type { JoinRequest, Standing } from '../../core/backend.js'
import { grantedCount } from '../../core/line.js'
import { type Data, found, type ZooKeeperClient } from './client/client.js'
import { CODE, ZooKeeperError } from './client/errors.js'
import { type Acl, MODE } from './client/protocol.js'
import { createTogether, type Creation } from './client/together.js'
import type { Doubts } from './doubts.js'
import { failure } from './failures.js'
import { decodeHolder, HolderEncoder } from './holder.js'
import type { LocalLine } from './local-line.js'
import type { OwnTicket } from './own-ticket.js'
import { unlessNoAuth } from './look.js'
import { bySeq, linePath, type Node, nodePrefix, parseNode, type Places } from './names.js'
import type { Parents } from './parents.js'
import type { Tickets } from './tickets.js'

/** A parent may be removed between making it and standing below it; so often in a row it is not by chance. */
const MOST_TRIES = 20

export interface JoinParts {
  readonly client: ZooKeeperClient
  readonly tickets: Tickets
  readonly parents: Parents
  readonly doubts: Doubts
  readonly places: Places
  readonly acl: readonly Acl[]
}

type Answer = (error: ZooKeeperError | undefined, ticket: OwnTicket | undefined) => void

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
  readonly #lists = new Map<LocalLine, Promise<void>>()
  readonly #holders = new HolderEncoder()

  constructor(parts: JoinParts) {
    this.#parts = parts
  }

  /**
   * Stands in line and says where. Creations and the list that follows them go out together: the server does
   * them in their order, so the answer costs one round trip.
   */
  stand(requests: readonly JoinRequest[], calledAt: number): Promise<Standing>[] {
    const { tickets, parents } = this.#parts
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
    this.#create(requests, lines, answers)
    for (const [index, line] of lines.entries()) if (again[index]) line.keep()
    // While a list is under way, what comes right behind it is judged by that one: see `LocalLine.stand`.
    const listed = this.list(lines.filter((line) => !line.quiet && !line.asking))
    return standings
  }

  /** Stands only where the line, as just read, has room; and not at all when somebody was quicker. */
  async try(request: JoinRequest, calledAt: number): Promise<Standing> {
    if (!(await this.hasRoom(request))) return { state: 'refused' }
    const [standing] = await Promise.all(this.stand([request], calledAt))
    if (standing!.state !== 'waiting') return standing!
    const ticket = this.#parts.tickets.get(request.id)
    if (ticket !== undefined) await this.undo(ticket)
    return { state: 'refused' }
  }

  /** Looks for a ticket whose creation was never answered. What an ended session left behind is not ours. */
  async find(request: JoinRequest): Promise<OwnTicket | undefined> {
    const path = this.#path(request)
    for (const { name } of await this.#readLine(request, path, true)) {
      if (parseNode(request.line.kind, name)!.id !== request.id) continue
      const adopting = this.#adopt(request, `${path}/${name}`)
      const listed = this.list([this.#parts.tickets.line(request.line)])
      const ticket = await adopting
      await Promise.all(listed.values())
      if (ticket !== undefined) return ticket
    }
    return undefined
  }

  /** Takes up a node as the request's ticket, unless it is gone or another session's. A list must follow. */
  #adopt(request: JoinRequest, path: string): Promise<OwnTicket | undefined> {
    const { client } = this.#parts
    return new Promise((resolve, reject) => {
      client.exists(path, undefined, (error, stat) => {
        if (error !== undefined) reject(error)
        else if (stat === undefined || stat.ephemeralOwner !== client.session.id) resolve(undefined)
        else resolve(this.created(request, path, stat.czxid))
      })
    })
  }

  /** Takes a ticket back that stood for a moment. */
  async undo(ticket: OwnTicket): Promise<void> {
    ticket.leaving = true
    await this.#delete(ticket.path)
    this.#parts.tickets.drop(ticket)
  }

  /** Drops the owner's tickets of other clients. */
  async takeOver(request: JoinRequest): Promise<void> {
    const { client } = this.#parts
    const path = this.#path(request)
    const nodes = await this.#readLine(request, path, true)
    await Promise.all(
      nodes.map(async ({ name }) => {
        // One that this user may not read is another's, as far as can be told.
        const read = await found<Data>((reply) => client.getData(`${path}/${name}`, undefined, reply)).catch(
          unlessNoAuth(undefined),
        )
        const holder = read === undefined ? undefined : decodeHolder(read.data)
        if (holder?.owner !== request.holder.owner || holder.client === request.holder.client) return
        await this.#delete(`${path}/${name}`)
      }),
    )
  }

  #path(request: JoinRequest): string {
    return linePath(this.#parts.places, request.line)
  }

  /**
   * Sends the creations, as one transaction where they are of different lines: the nodes of a transaction share
   * a czxid, and two tickets of one line must not. An answer without a ticket and without an error: the parent
   * is missing.
   */
  #create(requests: readonly JoinRequest[], lines: readonly LocalLine[], answers: readonly Answer[]): void {
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

  /** Reads each line once, after all creations. */
  list(lines: readonly LocalLine[]): Map<LocalLine, Promise<void>> {
    const listed = new Map<LocalLine, Promise<void>>()
    for (const line of new Set(lines)) {
      const list = new Promise<void>((resolve, reject) => {
        line.refresh((error) => {
          if (error === undefined || error.code === CODE.noNode) resolve()
          else reject(error)
        })
      })
      // Whoever needs it waits for it; where no creation was done nobody does.
      list.catch(() => undefined)
      listed.set(line, list)
    }
    return listed
  }

  /** One list for all tickets that turn out to need one at the same time. */
  #listOnce(line: LocalLine): Promise<void> {
    let list = this.#lists.get(line)
    if (list === undefined) {
      list = this.list([line])
        .get(line)!
        .finally(() => this.#lists.delete(line))
      this.#lists.set(line, list)
    }
    return list
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
        await this.#listOnce(this.#parts.tickets.line(request.line))
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
    if (error !== undefined) throw error
    for (let tries = 1; ticket === undefined; tries += 1) {
      if (tries > MOST_TRIES) throw new ZooKeeperError(CODE.noNode, line.path)
      await this.#parts.parents.missing(line.path)
      this.#parts.parents.expect(line.path)
      const again = new Promise<OwnTicket | undefined>((resolve, reject) => {
        this.#create([request], [line], [(failed, stood) => (failed === undefined ? resolve(stood) : reject(failed))])
      })
      list = this.list([line]).get(line)
      ticket = await again
    }
    await list
    return ticket
  }

  /** Whether a ticket that came now would be granted, as far as a look can tell. */
  async hasRoom(request: JoinRequest): Promise<boolean> {
    const { tickets, doubts } = this.#parts
    const path = this.#path(request)
    // Those before may be dropped yet; and of a line that only we use there is nothing to read.
    if (request.takeover || tickets.isFree(request.line)) return true
    if (fits(request, await this.#readLine(request, path, false))) return true
    // What an earlier call of ours left behind unanswered, and nobody wants, keeps nobody out for long; nor us.
    const over = new Set(doubts.over().map(([id]) => id))
    // The server may be behind, and show who has left: before it is said that others hold it, it has to catch up.
    const nodes = await this.#readLine(request, path, true)
    if (fits(request, nodes)) return true
    const leftovers = nodes.filter(({ id }) => over.has(id))
    if (leftovers.length === 0) return false
    await Promise.all(leftovers.map(({ name }) => this.#delete(`${path}/${name}`)))
    return fits(request, await this.#readLine(request, path, false))
  }

  async #readLine(request: JoinRequest, path: string, sync: boolean): Promise<Node[]> {
    const { client } = this.#parts
    if (sync) client.sync(() => undefined)
    const children = await found<string[]>((reply) => client.getChildren(path, undefined, reply))
    const nodes = (children ?? []).map((name) => parseNode(request.line.kind, name))
    return nodes.filter((node) => node !== undefined).sort(bySeq)
  }

  #delete(path: string): Promise<true | undefined> {
    return found<true>((reply) => this.#parts.client.delete(path, reply))
  }
}

/** Whether there is room for a ticket behind these. */
function fits(request: JoinRequest, nodes: readonly Node[]): boolean {
  return grantedCount([...nodes, request]) === nodes.length + 1
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
