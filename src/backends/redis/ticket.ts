import type { Holder, TicketView } from '../../core/backend.js'
import { rememberingLast } from '../../core/holder.js'

/**
 * A ticket as text: 'hf1 ID HANDLE WEIGHT CAPACITY INBOX ORDER JSON'. The scripts write it
 * and take it apart again by the spaces. HANDLE is '=' while it is the id, and '!' once the ticket has left.
 */
const TICKET = /^hf1 (\S+) (\S+) (\d+) (\d+) (\S+) (\d+) ([^]*)$/

/** The holder as it stands in a ticket. */
export const holderText: (holder: Holder) => string = rememberingLast(({ owner, client, host, pid, note }) =>
  JSON.stringify(note === undefined ? [owner, client, host, pid] : [owner, client, host, pid, note]),
)

export interface ParsedTicket extends TicketView {
  readonly inbox: string
}

/** The ticket in a text; undefined when it is not one of ours. */
export function parseTicket(text: string): ParsedTicket | undefined {
  const match = TICKET.exec(text)
  if (match === null) return undefined
  const [, id = '', handle = '', weight = '', capacity = '', inbox = '', order = '', json = ''] = match
  const holder = parseHolder(json)
  if (holder === undefined) return undefined
  return {
    id,
    order: BigInt(order),
    weight: Number(weight),
    capacity: Number(capacity),
    inbox,
    holder,
    left: handle === '!',
  }
}

function parseHolder(json: string): Holder | undefined {
  let parts: unknown
  try {
    parts = JSON.parse(json)
  } catch {
    return undefined
  }
  if (!Array.isArray(parts)) return undefined
  const [owner, client, host, pid, note] = parts as [string, string, string, number, string | undefined]
  return { owner, client, host, pid, ...(note === undefined ? {} : { note }) }
}
