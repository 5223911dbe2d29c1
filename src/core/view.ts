import type { LineView } from './backend.js'
import { grantedCount, type Kind } from './line.js'

/** A line as people look at it. */
export interface LineInfo {
  readonly kind: Kind
  readonly name: string
  readonly tickets: readonly TicketInfo[]
  /** Tokens as decimal text. */
  toJSON(): Record<string, unknown>
}

/** A ticket as people look at it; `evict` takes it. */
export interface TicketInfo {
  readonly kind: Kind
  readonly name: string
  readonly id: string
  /** held: granted · waiting: in line · left: released, and keeping others out for its `minHold` */
  readonly state: 'held' | 'waiting' | 'left'
  /** The order in line; once held, the fence. */
  readonly fence: bigint
  readonly weight: number
  readonly capacity: number
  readonly owner: string
  readonly host: string
  readonly pid: number
  readonly note?: string
  /** Since when it stands there, and how long its lease lasts without a renewal, by the store's clock. */
  readonly ageMs?: number
  readonly remainingMs?: number
}

/** Says of each ticket whether the grant rule grants it. */
export function viewLine(view: LineView): LineInfo {
  const { kind, name } = view.line
  const granted = grantedCount(view.tickets)
  const tickets = view.tickets.map((ticket, i): TicketInfo => {
    const { owner, host, pid, note } = ticket.holder
    return {
      kind,
      name,
      id: ticket.id,
      state: ticket.left ? 'left' : i < granted ? 'held' : 'waiting',
      fence: ticket.order,
      weight: ticket.weight,
      capacity: ticket.capacity,
      owner,
      host,
      pid,
      ...(note === undefined ? undefined : { note }),
      ...(ticket.ageMs === undefined ? undefined : { ageMs: ticket.ageMs }),
      ...(ticket.remainingMs === undefined ? undefined : { remainingMs: ticket.remainingMs }),
    }
  })
  const toJSON = (): Record<string, unknown> => ({ kind, name, tickets: tickets.map(ticketJson) })
  return { kind, name, tickets, toJSON }
}

/** A ticket as plain JSON: the token as decimal text, times in whole milliseconds. */
export function ticketJson(ticket: TicketInfo): Record<string, unknown> {
  return {
    ...ticket,
    fence: ticket.fence.toString(),
    ...(ticket.ageMs === undefined ? undefined : { ageMs: Math.round(ticket.ageMs) }),
    ...(ticket.remainingMs === undefined ? undefined : { remainingMs: Math.round(ticket.remainingMs) }),
  }
}
