import type { LeaveRequest } from '../../core/backend.js'
import { TOMBSTONE_MS } from './debts.js'
import type { Entry } from './entry.js'
import type { Node } from './node.js'

/** That an entry's ticket is not wanted any more; `id`: that of an earlier try. */
export function leaveOf({ request, ticket }: Entry, tombstoneMs: number, id: string = ticket): LeaveRequest {
  return { line: request.line, id, handle: id, keepMs: 0, tombstoneMs }
}

/** What a leave is for the servers; `node`: for that one, where its join may have been broken off. */
export function nodeLeave(ticket: LeaveRequest, entry: Entry | undefined, node: Node | undefined): LeaveRequest {
  // Not a ticket of this client: an eviction, by the id that `view` showed.
  if (entry === undefined) return ticket
  const { line, keepMs } = ticket
  const { ticket: id } = entry
  const isSilent = node !== undefined && entry.silent.has(node)
  const tombstoneMs = isSilent ? Math.max(TOMBSTONE_MS, ticket.tombstoneMs) : ticket.tombstoneMs
  if (ticket.handle === undefined) return { line, id, keepMs, tombstoneMs }
  return { line, id, handle: id, keepMs, tombstoneMs }
}
