import { gone, processOf } from './process.js'

/** What is known of a ticket that was found standing. */
export interface Place {
  readonly ord: number
  readonly id: string
  readonly line: string
  readonly ttl: number
}

/** A ticket as the file keeps it: see schema.sql. */
export interface Ticket extends Place {
  readonly weight: number
  readonly capacity: number
  ttl: number
  until: number
  clock: string
  readonly joined: number
  left: boolean
  handle: string
  client: number
  processes: string | null
  /** JSON; '' where its client is not known any more. */
  holder: string
  /** Where its client is woken; '' likewise. */
  inbox: string
}

/** The columns of a ticket, for `FROM`, in the order in which `readTicket` takes them. */
export const COLUMNS = `t.ord, t.id, t.line, t.weight, t.capacity, t.ttl, t.until, t.clock, t.joined, t.left, t.handle, t.client,
  t.processes, coalesce(t.holder, c.holder, ''), coalesce(c.inbox, '')`

/** A ticket's client may have been swept away: the ticket still counts. */
export const FROM = 'tickets t LEFT JOIN clients c ON c.key = t.client'

export function readTicket(row: readonly unknown[]): Ticket {
  return {
    ord: row[0] as number,
    id: row[1] as string,
    line: row[2] as string,
    weight: row[3] as number,
    capacity: row[4] as number,
    ttl: row[5] as number,
    until: row[6] as number,
    clock: row[7] as string,
    joined: row[8] as number,
    left: row[9] === 1,
    handle: (row[10] as string | null) ?? (row[1] as string),
    client: row[11] as number,
    processes: row[12] as string | null,
    holder: row[13] as string,
    inbox: row[14] as string,
  }
}

/** Whether all processes that a ticket names have ended. */
export function isGone(ticket: Ticket, ended: (process: string) => boolean = gone): boolean {
  if (ticket.processes === '') return false
  if (ticket.processes === null) return ticket.inbox !== '' && ended(processOf(ticket.inbox))
  return ticket.processes.split(' ').every(ended)
}
