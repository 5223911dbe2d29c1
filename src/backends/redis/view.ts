import type { JoinRequest, LineView, TicketView } from '../../core/backend.js'
import { KINDS, type LineKey } from '../../core/line.js'
import type { Keys, LineKeys } from './keys.js'
import { runScript } from './run-script.js'
import type { Script } from './scripts.js'
import { type ParsedTicket, parseTicket } from './ticket.js'
import type { Wire } from './wire.js'

/** So many tickets a page: a long line is looked at in several short scripts. */
const PAGE = 250

export interface Looking {
  readonly wire: Wire
  readonly keys: Keys
  readonly script: Script
}

/** The lines of a name that have any ticket. */
export async function view(look: Looking, name: string): Promise<LineView[]> {
  const lines = await Promise.all(KINDS.map((kind) => tickets(look, { kind, name })))
  return lines.flatMap((list, i) => (list.length === 0 ? [] : [{ line: { kind: KINDS[i]!, name }, tickets: list }]))
}

/** The names that have a ticket. A foreign lock alone is none of ours. */
export async function* names(look: Looking, prefix: string): AsyncIterable<string> {
  const seen = new Set<string>()
  for (const pattern of look.keys.patterns(prefix)) {
    for (const send of look.wire.masters()) {
      let cursor = '0'
      do {
        const [next, page] = (await send(['SCAN', cursor, 'MATCH', pattern, 'COUNT', '500'])) as [unknown, unknown[]]
        cursor = String(next)
        const fresh = page
          .map((key) => look.keys.nameIn(String(key)))
          .filter((name) => name !== undefined && !seen.has(name))
        for (const name of new Set(fresh as string[])) {
          seen.add(name)
          if (await hasTicket(look, name)) yield name
        }
      } while (cursor !== '0')
    }
  }
}

/** The ids of this owner's tickets that belong to another client: what a takeover drops. */
export async function earlierTickets(look: Looking, request: JoinRequest): Promise<string[]> {
  const { owner, client } = request.holder
  const found: string[] = []
  for await (const ticket of pages(look, request.line)) {
    if (ticket.holder.owner === owner && ticket.holder.client !== client) found.push(ticket.id)
  }
  return found
}

async function hasTicket(look: Looking, name: string): Promise<boolean> {
  const lines = await view(look, name)
  return lines.some((line) => line.tickets.some((ticket) => ticket.order > 0n))
}

async function tickets(look: Looking, line: LineKey): Promise<TicketView[]> {
  const list: TicketView[] = []
  for await (const { inbox: _inbox, ...ticket } of pages(look, line)) list.push(ticket)
  return list
}

async function* pages(look: Looking, line: LineKey): AsyncIterable<ParsedTicket> {
  const keys = look.keys.of(line)
  let after = 0n
  for (;;) {
    const [time, main, pttl, ...rest] = await page(look, keys, line.kind === 'mutex' ? 'm' : 'c', after)
    const now = Number(time)
    if (after === 0n && main !== '') yield holding(main!, Number(pttl), now)
    for (let i = 0; i < rest.length; i += 2) {
      const ticket = parseTicket(rest[i]!)
      if (ticket === undefined) continue
      if (ticket.order > after) after = ticket.order
      const remainingMs = (Number(rest[i + 1]) - now) / 1000
      if (remainingMs > 0) yield { ...ticket, remainingMs, ageMs: age(ticket, now) }
    }
    if (rest.length < 2 * PAGE) return
  }
}

function holding(main: string, pttl: number, now: number): ParsedTicket {
  const remaining = pttl < 0 ? {} : { remainingMs: pttl }
  const ticket = parseTicket(main)
  if (ticket !== undefined) return { ...ticket, ...remaining, ageMs: age(ticket, now) }
  // Somebody's `SET NX PX`. What it says is that locker's secret, so only that it stands there is shown.
  const holder = { owner: 'not a Holdfast lock', client: '', host: '', pid: 0 }
  return { id: 'foreign', order: 0n, weight: 1, capacity: 1, inbox: '', holder, left: false, ...remaining }
}

/** The order is the time of the join, unless the clock was stepped back or many came at once. */
function age(ticket: ParsedTicket, now: number): number {
  return Math.max(0, (now - Number(ticket.order)) / 1000)
}

async function page(look: Looking, keys: LineKeys, kind: string, after: bigint): Promise<string[]> {
  const rest = ['4', keys.main, keys.order, keys.lease, keys.tickets, kind, String(after), String(PAGE)]
  return ((await runScript(look.wire, look.script, rest, keys.main)) as unknown[]).map(String)
}
