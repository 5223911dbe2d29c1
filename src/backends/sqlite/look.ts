import type { LineView, TicketView } from '../../core/backend.js'
import { KINDS, lineText } from '../../core/line.js'
import type { LockFile } from './file.js'
import { readHolder } from './holder.js'
import { CLOCK, now, ofThisBoot } from './process.js'
import { isGone, readTicket, type Ticket } from './ticket.js'

/** More than can stand in a line. */
const ALL = 2 ** 31
/** How many lines are looked up at once. */
const PAGE = 256

/** The live tickets of every line of that name. */
export async function viewName(file: LockFile, name: string): Promise<LineView[]> {
  const lines: LineView[] = []
  for (const kind of KINDS) {
    const line = { kind, name }
    const tickets = await living(file, lineText(line))
    const time = now()
    if (tickets.length > 0) lines.push({ line, tickets: tickets.map((ticket) => show(ticket, time)) })
  }
  return lines
}

/** The names that start with the prefix and have a live ticket. */
export async function* listNames(file: LockFile, prefix: string): AsyncIterable<string> {
  const seen = new Set<string>()
  for (const kind of KINDS) {
    for await (const line of linesFrom(file, lineText({ kind, name: prefix }))) {
      const name = line.slice(kind.length + 1)
      if (seen.has(name) || (await living(file, line)).length === 0) continue
      seen.add(name)
      yield name
    }
  }
}

// All texts with one prefix follow each other in the index, the prefix itself first.
async function* linesFrom(file: LockFile, prefix: string): AsyncIterable<string> {
  let last = ''
  for (;;) {
    const bounds = [last === '' ? prefix : last, last, PAGE]
    const page = (await file.look('listing names', () => file.sql.lines.all(bounds))) as [string][]
    for (const [line] of page) {
      if (!line.startsWith(prefix)) return
      last = line
      yield line
    }
    if (page.length < PAGE) return
  }
}

async function living(file: LockFile, line: string): Promise<Ticket[]> {
  const rows = await file.look('looking at a line', () => file.sql.ofLine.all([line, 0, ALL]))
  const time = now()
  return (rows as unknown[][])
    .map(readTicket)
    .filter((ticket) => (ticket.clock !== CLOCK || ticket.until > time) && !isGone(ticket))
}

function show(ticket: Ticket, time: number): TicketView {
  const { id, weight, capacity, left } = ticket
  return {
    id,
    order: BigInt(ticket.ord),
    weight,
    capacity,
    holder: readHolder(ticket.holder),
    left,
    ...(ofThisBoot(ticket.inbox) ? { ageMs: Math.max(0, time - ticket.joined) } : undefined),
    ...(ticket.clock === CLOCK ? { remainingMs: Math.max(0, ticket.until - time) } : undefined),
  }
}
