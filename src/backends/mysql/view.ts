import type { LineView, TicketView } from '../../core/backend.js'
import { KINDS } from '../../core/line.js'
import type { Connections } from './connections.js'
import { decodeHolder } from './holder.js'
import { bigint, flag, number, type Row, string } from './rows.js'
import { integer, lineOf, lineValue, NOW, text, texts } from './sql-text.js'
import type { Tables } from './tables.js'

/** How many names are read at a time. */
const PAGE = 500

/** The live tickets of each line of a name, in order. */
export async function view(connections: Connections, tables: Tables, name: string): Promise<LineView[]> {
  const age = `TIMESTAMPDIFF(MICROSECOND, joined, ${NOW}) DIV 1000`
  const left = `TIMESTAMPDIFF(MICROSECOND, ${NOW}, expires) DIV 1000`
  const lines = texts(KINDS.map((kind) => lineValue({ kind, name })))
  const sql = `SELECT line, id, ord, weight, capacity, holder, gone, ${age}, ${left} FROM ${tables.ticket} WHERE line IN (${lines}) AND expires > ${NOW} ORDER BY line, ord`
  const [rows = []] = await connections.run(sql, 'viewing a line')
  const byLine = new Map<string, TicketView[]>()
  for (const row of rows) {
    const line = string(row[0])
    const tickets = byLine.get(line)
    if (tickets === undefined) byLine.set(line, [ticketView(row)])
    else tickets.push(ticketView(row))
  }
  return [...byLine].map(([line, tickets]) => ({ line: lineOf(line), tickets }))
}

function ticketView([, id, ord, weight, capacity, holder, gone, age, left]: Row): TicketView {
  return {
    id: string(id),
    order: bigint(ord),
    weight: number(weight),
    capacity: number(capacity),
    holder: decodeHolder(string(holder)),
    left: flag(gone),
    ageMs: number(age),
    remainingMs: number(left),
  }
}

/** The names with a live ticket that start with the prefix, page by page, so that many are no burden. */
export async function* names(connections: Connections, tables: Tables, prefix: string): AsyncIterable<string> {
  const seen = new Set<string>()
  for (const kind of KINDS) {
    const start = lineValue({ kind, name: prefix })
    const length = integer(Buffer.byteLength(start))
    for (let after = ''; ; ) {
      const from = after === '' ? `line >= ${text(start)}` : `line > ${text(after)}`
      // The bound above keeps the walk within the index: what starts with the prefix sorts below it.
      const sql = `SELECT DISTINCT line FROM ${tables.ticket} WHERE ${from} AND line < CONCAT(${text(start)}, x'ff') AND LEFT(line, ${length}) = ${text(start)} AND expires > ${NOW} ORDER BY line LIMIT ${PAGE}`
      const [rows = []] = await connections.run(sql, 'listing names')
      for (const [line] of rows) {
        after = string(line)
        const { name } = lineOf(after)
        if (seen.has(name)) continue
        seen.add(name)
        yield name
      }
      if (rows.length < PAGE) break
    }
  }
}
