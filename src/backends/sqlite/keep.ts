import type { LeaveRequest, RenewRequest } from '../../core/backend.js'
import { lineText } from '../../core/line.js'
import { type Card, holderText, processesOf } from './holder.js'
import type { Outcome } from './join.js'
import { type Ledger, nameOf } from './ledger.js'

/** Keeps every ticket alive that still stands and is spoken for by its handle. */
export function renewAll(requests: readonly RenewRequest[], ledger: Ledger, card: Card): Outcome[] {
  const tickets = requests.map((request) => ({ id: request.id, line: lineText(request.line) }))
  ledger.read(tickets.map(({ line }) => line))
  const waitTtlMs = requests[0]?.waitTtlMs ?? 0
  const far = tickets.filter((ticket, i) => isFarBack(requests[i]!, ticket, waitTtlMs, ledger))
  const touched = far.length === 0 ? undefined : ledger.touch(far, waitTtlMs)
  for (const line of new Set(far.map((ticket) => ticket.line))) ledger.line(line).dropGone()
  const rest = tickets.filter((ticket) => touched?.has(nameOf(ticket)) !== true)
  ledger.readTickets(rest)
  return requests.map((request, i) => touched?.get(nameOf(tickets[i]!)) ?? renewOne(request, ledger, card))
}

/** A plain ticket that was not read, behind others who wait: it waits, too, and nothing else need be known of it. */
function isFarBack(
  request: RenewRequest,
  ticket: { readonly line: string; readonly id: string },
  waitTtlMs: number,
  ledger: Ledger,
): boolean {
  if (request.waitTtlMs !== waitTtlMs || request.handle !== request.id) return false
  if (request.nextHandle !== undefined || request.nextHolder !== undefined) return false
  return !ledger.has(ticket) && ledger.line(ticket.line).isCrowded
}

function renewOne(request: RenewRequest, ledger: Ledger, card: Card): Outcome {
  const ticket = ledger.find(lineText(request.line), request.id)
  if (ticket === undefined || ticket.left) return { state: 'gone' }
  // A repeated swap finds the new handle: it was done, only the answer was lost.
  if (ticket.handle !== request.handle && ticket.handle !== request.nextHandle) return { state: 'gone' }
  const line = ledger.line(ticket.line)
  const granted = line.isGranted(ticket) || (line.dropGone() && line.isGranted(ticket))
  ledger.lease(ticket, granted ? request.ttlMs : request.waitTtlMs)
  const { nextHandle, nextHolder } = request
  if (nextHandle !== undefined) ledger.change(ticket, { handle: nextHandle })
  if (nextHolder !== undefined) {
    const { key: client, inbox } = card
    ledger.change(ticket, { client, inbox, processes: processesOf(nextHolder), holder: holderText(nextHolder) })
  }
  return ticket
}

/** Lets every ticket go. True where it stood. */
export function leaveAll(requests: readonly LeaveRequest[], ledger: Ledger): boolean[] {
  const tickets = requests.map((request) => ({ id: request.id, line: lineText(request.line) }))
  ledger.read(tickets.map(({ line }) => line))
  ledger.readTickets(tickets)
  return requests.map((request) => leaveOne(request, ledger))
}

function leaveOne(request: LeaveRequest, ledger: Ledger): boolean {
  if (request.tombstoneMs > 0) ledger.bury(request.id, request.tombstoneMs)
  const ticket = ledger.find(lineText(request.line), request.id)
  if (ticket === undefined) return false
  if (request.handle === undefined) {
    ledger.evict(ticket)
    return true
  }
  if (ticket.left || ticket.handle !== request.handle) return false
  if (request.keepMs > 0 && ledger.line(ticket.line).isGranted(ticket)) {
    // It keeps others out whatever becomes of its process: that is what minHold is for.
    ledger.lease(ticket, request.keepMs)
    ledger.change(ticket, { left: true, processes: '' })
  } else {
    ledger.drop(ticket)
  }
  return true
}
