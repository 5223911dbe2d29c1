import type { LineView, TicketView } from '../../core/backend.js'
import { byOrder, type LineKey, lineText } from '../../core/line.js'

/** What stands on a majority of the servers, each ticket once, with the least that any of them says is left of it. */
export function mergeViews(views: readonly LineView[][], majority: number): LineView[] {
  const lines = new Map<string, { line: LineKey; tickets: Map<string, TicketView[]> }>()
  for (const { line, tickets } of views.flat()) {
    const known = lines.get(lineText(line)) ?? { line, tickets: new Map<string, TicketView[]>() }
    lines.set(lineText(line), known)
    for (const ticket of tickets) known.tickets.set(ticket.id, [...(known.tickets.get(ticket.id) ?? []), ticket])
  }
  return [...lines.values()].flatMap(({ line, tickets }) => {
    const whole = [...tickets.values()].filter((copies) => copies.length >= majority).map(merge)
    return whole.length === 0 ? [] : [{ line, tickets: whole.sort(byOrder) }]
  })
}

function merge(copies: readonly TicketView[]): TicketView {
  const left = copies
    .flatMap(({ remainingMs }) => (remainingMs === undefined ? [] : [remainingMs]))
    .sort((a, b) => b - a)
  // As long as a majority keeps it: the median, as it were.
  const remainingMs = left[Math.floor(copies.length / 2)]
  return { ...agreed(copies), ...(remainingMs === undefined ? {} : { remainingMs }) }
}

/** The copy with the order that most have: one that voted too late to be asked may have another. */
function agreed(copies: readonly TicketView[]): TicketView {
  const count = (one: TicketView): number => copies.filter(({ order }) => order === one.order).length
  return copies.reduce((most, one) => (count(one) > count(most) ? one : most))
}
