import type { JoinRequest, LeaveRequest, Standing } from '../../core/backend.js'
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

/** This server did not have it when it left, but may since. */
export function missed(node: Node, entry: Entry, id: string): void {
  if (entry.missed(id, node)) void node.leaveAtLast([leaveOf(entry, 0, id)])
}

/** Of what a server has just granted, what has left already: a join that takes two messages can be overtaken by its leave. */
export function leaveAgain(
  node: Node,
  entries: readonly Entry[],
  requests: readonly JoinRequest[],
  answer: readonly Standing[],
): void {
  for (let i = 0; i < entries.length; i += 1) {
    const entry = entries[i]!
    if (answer[i]!.state !== 'granted' || !entry.appeared(requests[i]!.id, node)) continue
    void node.leaveAtLast([leaveOf(entry, 0, requests[i]!.id)])
  }
}

/** A join was broken off: it may have arrived all the same, or arrive behind its own leave. */
export function brokenOff(node: Node, entries: readonly Entry[], requests: readonly JoinRequest[]): void {
  for (const [i, entry] of entries.entries()) {
    const { id } = requests[i]!
    if (entry.ticket === id) entry.silent.add(node)
    if (entry.hasLeft(id, node)) node.owe([leaveOf(entry, TOMBSTONE_MS, id)])
  }
}
