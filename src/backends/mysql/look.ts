import type { LineKey } from '../../core/line.js'
import { bigint, flag, type Rows, string } from './rows.js'
import { integer, lineValue, NOW, text, texts } from './sql-text.js'

/** Whose grants are asked for, and how far into the line it can be worth looking. */
export interface Looked {
  readonly line: LineKey
  /** The largest capacity among those who ask: a ticket of theirs that is granted is not further from the head. */
  readonly capacity: number
}

/** Up to where a line is granted: a ticket holds when its order is not above `order`. */
export interface Border {
  readonly order: bigint
  /** A ticket at the head has lapsed and is to be dropped. */
  readonly dead: boolean
}

/** Above this many, the limit on what is read costs more than it saves. */
const MOST_LIMITED = 4_096

/** The statements that read the borders of these lines. They take no lock. */
export function lookSql(table: string, lines: readonly Looked[]): string[] {
  const mutexes = lines.filter(({ line }) => line.kind === 'mutex')
  const others = lines.filter(({ line }) => line.kind !== 'mutex')
  const statements = others.map(({ line, capacity }) => lookAtOne(table, lineValue(line), capacity))
  if (mutexes.length > 0) {
    // The heads come from one step in the index a line, however long the lines are.
    const heads = `SELECT MIN(ord) AS ord FROM ${table} WHERE line IN (${texts(mutexes.map(({ line }) => lineValue(line)))}) GROUP BY line`
    statements.push(`SELECT t.line, t.ord, t.expires <= ${NOW} FROM (${heads}) h JOIN ${table} t ON t.ord = h.ord`)
  }
  return statements
}

/** The grant rule in SQL: running weights, and nothing counts after the first ticket that does not fit. */
function lookAtOne(table: string, line: string, capacity: number): string {
  const limit = capacity < MOST_LIMITED ? ` ORDER BY ord LIMIT ${integer(capacity + 1)}` : ''
  const read = `SELECT ord, weight, capacity, expires <= ${NOW} AS dead FROM ${table} WHERE line = ${text(line)}${limit}`
  const sums = `SELECT ord, dead, SUM(weight) OVER (ORDER BY ord) > capacity AS beyond FROM (${read}) a`
  const cut = `SELECT ord, dead, MAX(beyond) OVER (ORDER BY ord) AS stopped FROM (${sums}) b`
  return `SELECT ${text(line)}, MAX(IF(stopped, 0, ord)), MAX(dead) FROM (${cut}) c`
}

/** The borders by line value; a line without tickets has none. */
export function readBorders(results: readonly Rows[]): Map<string, Border> {
  const borders = new Map<string, Border>()
  for (const rows of results) {
    for (const [line, order, dead] of rows) borders.set(string(line), { order: bigint(order), dead: flag(dead) })
  }
  return borders
}
