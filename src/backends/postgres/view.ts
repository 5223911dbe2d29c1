import type { Holder, LineView, TicketView } from '../../core/backend.js'
import { KINDS, type Kind } from '../../core/line.js'
import { type Connections, twice } from './connections.js'

const PAGE = 500

/** The live tickets of each line of that name, in order. */
export async function viewLines(connections: Connections, schema: string, name: string): Promise<LineView[]> {
  const text = `SELECT line, id, ord::text, weight::text, capacity::text, holder, departed::text,
      (extract(epoch FROM clock_timestamp() - joined) * 1000)::bigint::text AS age,
      (extract(epoch FROM expires - clock_timestamp()) * 1000)::bigint::text AS remaining
    FROM "${schema}".ticket
    WHERE line IN ($1, $2, $3) AND id <> '' AND expires > clock_timestamp() ORDER BY line, seat`
  const { rows } = await twice(() =>
    connections.run('a view', { text, values: KINDS.map((kind) => `${kind}:${name}`) }),
  )
  const views: LineView[] = []
  for (const kind of KINDS) {
    const tickets = rows.filter((row) => row['line'] === `${kind}:${name}`).map(ticketView)
    if (tickets.length > 0) views.push({ line: { kind, name }, tickets })
  }
  return views
}

/** The next names of one kind after the given one; none when there are no more. */
export async function namesPage(
  connections: Connections,
  schema: string,
  kind: Kind,
  prefix: string,
  after: string,
): Promise<string[]> {
  // No name of up to 512 bytes with this prefix sorts behind 129 times the last character there is.
  const text = `SELECT DISTINCT line FROM "${schema}".ticket
    WHERE line >= $1 AND line < $1 || repeat(chr(1114111), 129) AND line > $2 AND starts_with(line, $1)
      AND id <> '' AND expires > clock_timestamp()
    ORDER BY line LIMIT ${PAGE}`
  const values = [`${kind}:${prefix}`, `${kind}:${after}`]
  const { rows } = await twice(() => connections.run('a listing', { text, values }))
  return rows.map((row) => (row['line'] ?? '').slice(kind.length + 1))
}

function ticketView(row: Record<string, string | null>): TicketView {
  return {
    id: row['id'] ?? '',
    order: BigInt(row['ord'] ?? 0),
    weight: Number(row['weight']),
    capacity: Number(row['capacity']),
    holder: JSON.parse(row['holder'] ?? '{}') as Holder,
    left: row['departed'] === 'true',
    ageMs: Number(row['age']),
    remainingMs: Number(row['remaining']),
  }
}
