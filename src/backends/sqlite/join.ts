import type { JoinRequest, Standing } from '../../core/backend.js'
import { lineText } from '../../core/line.js'
import { type Card, holderText, processesOf, readHolder } from './holder.js'
import type { Ledger } from './ledger.js'
import { CLOCK } from './process.js'
import type { Place, Ticket } from './ticket.js'

/** What became of one request: a ticket that stands, or an answer that needs no more. */
export type Outcome = Place | Standing

/** Stands in line for every request; a group is granted as a whole, or none of it stands. */
export function joinAll(requests: readonly JoinRequest[], ledger: Ledger, card: Card): Outcome[] {
  const tickets = requests.map((request) => ({ id: request.id, line: lineText(request.line) }))
  ledger.read(tickets.map(({ line }) => line))
  ledger.readForJoin(tickets)
  const outcomes = new Map<JoinRequest, Outcome>()
  for (const request of requests) {
    if (outcomes.has(request)) continue
    // A group is decided at once, when its first member comes: nothing can step in between.
    const members = request.group === undefined ? [request] : requests.filter((other) => other.group === request.group)
    const refused = members.length > 1 && !members.every((member) => isPossible(member, ledger))
    for (const member of members) outcomes.set(member, refused ? refuse(member, ledger) : joinOne(member, ledger, card))
  }
  return requests.map((request) => outcomes.get(request)!)
}

function joinOne(request: JoinRequest, ledger: Ledger, card: Card): Outcome {
  if (ledger.isBuried(request.id)) return { state: 'gone' }
  const known = find(request, ledger)
  if (known?.left === true) return { state: 'gone' }
  const granted = isPossible(request, ledger)
  if (!granted && !request.wait) return refuse(request, ledger)
  const ttlMs = granted ? request.ttlMs : request.waitTtlMs
  if (known === undefined) return stand(request, ttlMs, ledger, card)
  // A repeated call keeps its place, and its lease starts anew.
  ledger.lease(known, ttlMs)
  return known
}

function find(request: JoinRequest, ledger: Ledger): Ticket | undefined {
  return ledger.find(lineText(request.line), request.id)
}

/** Whether the request is granted at once, be it new or a copy of one that stands. */
function isPossible(request: JoinRequest, ledger: Ledger): boolean {
  if (ledger.isBuried(request.id)) return false
  const line = ledger.line(lineText(request.line))
  const known = find(request, ledger)
  if (known === undefined && request.takeover) takeOver(request, ledger)
  const look = (): boolean =>
    known === undefined ? line.hasRoom(request.weight, request.capacity) : line.isGranted(known)
  // Whether a process lives costs a look at the system: only when somebody is in the way.
  return look() || (line.dropGone() && look())
}

function refuse(request: JoinRequest, ledger: Ledger): Standing {
  if (ledger.isBuried(request.id)) return { state: 'gone' }
  const known = find(request, ledger)
  if (known !== undefined) ledger.drop(known)
  return { state: 'refused' }
}

// What was released already keeps others out on purpose (minHold): it stays.
function takeOver(request: JoinRequest, ledger: Ledger): void {
  const { owner, client } = request.holder
  const earlier = ledger
    .line(lineText(request.line))
    .everyone()
    .filter((ticket) => {
      const holder = readHolder(ticket.holder)
      return !ticket.left && holder.owner === owner && holder.client !== client
    })
  for (const ticket of earlier) ledger.evict(ticket)
}

function stand(request: JoinRequest, ttlMs: number, ledger: Ledger, card: Card): Ticket {
  const ticket: Ticket = {
    ord: ledger.nextOrder(),
    id: request.id,
    line: lineText(request.line),
    weight: request.weight,
    capacity: request.capacity,
    ttl: ttlMs,
    until: ledger.now + ttlMs,
    clock: CLOCK,
    joined: ledger.now,
    left: false,
    handle: request.id,
    client: card.key,
    processes: processesOf(request.holder),
    holder: holderText(request.holder),
    inbox: card.inbox,
  }
  ledger.insert(ticket)
  ledger.line(ticket.line).append(ticket)
  return ticket
}
