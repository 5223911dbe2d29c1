import { texts } from './sql-text.js'

/** From so many tickets a line on, all of the line are numbered at once. */
const MANY = 4

/**
 * Reads these tickets (as `t`), and last of each row how many stand ahead of it; of those who wait, `lines` has the lines,
 * each as often as one waits in it. Few are counted one by one, each from an
 * index; for many of one line that would be the square of its length, so there the whole line is numbered once.
 */
export function withAhead(table: string, columns: string, ids: readonly string[], lines: readonly string[]): string {
  const distinct = [...new Set(lines)]
  if (lines.length < distinct.length * MANY) {
    return `SELECT ${columns}, (SELECT COUNT(*) FROM ${table} a WHERE a.line = t.line AND a.ord < t.ord) FROM ${table} t WHERE t.id IN (${texts(ids)})`
  }
  const numbered = `SELECT ord, ROW_NUMBER() OVER (PARTITION BY line ORDER BY ord) - 1 AS ahead FROM ${table} WHERE line IN (${texts(distinct)})`
  // A tombstone is in no line.
  return `SELECT ${columns}, COALESCE(n.ahead, 0) FROM ${table} t LEFT JOIN (${numbered}) n ON n.ord = t.ord WHERE t.id IN (${texts(ids)})`
}
