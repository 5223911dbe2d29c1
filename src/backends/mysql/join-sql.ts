import type { JoinRequest } from '../../core/backend.js'
import { withAhead } from './ahead.js'
import { NO_ROWS } from './block.js'
import { encodeHolder } from './holder.js'
import { MOST_DROPPED } from './lapsed.js'
import { lookSql } from './look.js'
import { integer, lineValue, micros, NOW, stripeOf, text, texts } from './sql-text.js'
import type { Tables } from './tables.js'

/** A request with what its SQL needs worked out once. */
export interface Joining {
  readonly request: JoinRequest
  readonly line: string
  readonly stripe: number
  /** A mutex that is asked for by itself: those go in one statement, and mostly need no second look. */
  readonly simple: boolean
}

export function joining(request: JoinRequest): Joining {
  const line = lineValue(request.line)
  return { request, line, stripe: stripeOf(line), simple: request.line.kind === 'mutex' && request.group === undefined }
}

/**
 * One transaction in one packet:
 * take the locks of the lines that nobody has just now · see which are empty · put the tickets there · commit.
 *
 * SKIP LOCKED: a line whose lock is taken is left out and named in the answer, so one stalled name stalls no
 * other, and nobody ever waits for a lock while holding one, so these locks cannot cross.
 * What is read is read in statements after the lock's, under READ COMMITTED: their snapshots are newer than the lock.
 * The order is drawn (AUTO_INCREMENT) while the line's lock is held and the commit comes before its release,
 * so no ticket of a line can turn up later with a smaller order than one that was seen.
 */
export function joinSql(tables: Tables, items: readonly Joining[], returning: boolean): string[] {
  const simple = items.filter((item) => item.simple)
  const statements = ['START TRANSACTION', lockSql(tables, items), ...takeoverSql(tables, items)]
  // Who stands by a group of this very packet makes a line busy, so that is read after it.
  statements.push(...otherSql(tables, items), busySql(tables, simple))
  if (simple.length > 0 && returning)
    return [...statements, `${mutexSql(tables, simple)} RETURNING ${ownColumns('')}`, 'COMMIT', GOT]
  if (simple.length > 0) statements.push(mutexSql(tables, simple))
  return [...statements, `SELECT ${ownColumns('')} FROM ${tables.ticket} WHERE id IN (${idsOf(simple)})`, 'COMMIT', GOT]
}

/** Which locks we had, and which lines were not empty; the third result from the end has the own tickets of the mutexes. */
const GOT = 'SELECT @holdfast_got, @holdfast_busy'

/**
 * Where tickets stand, read after the commit, when nobody waits for us any more:
 * a ticket ahead can only leave, so the answer cannot become wrong.
 */
export function standingSql(tables: Tables, items: readonly Joining[]): string[] {
  const ids = items.map(({ request }) => request.id)
  const lines = items.map(({ line }) => line)
  const tried = items.filter(({ request }) => !request.wait).map(({ line }) => line)
  const others = items.filter(({ request }) => request.line.kind !== 'mutex')
  return [
    withAhead(tables.ticket, ownColumns('t.'), ids, lines),
    tried.length === 0
      ? NO_ROWS
      : `SELECT ord FROM ${tables.ticket} WHERE line IN (${texts(tried)}) AND expires <= ${NOW} LIMIT ${MOST_DROPPED}`,
    ...lookSql(
      tables.ticket,
      others.map(({ request }) => ({ line: request.line, capacity: request.capacity })),
    ),
  ]
}

export function ownColumns(alias: string): string {
  return `${alias}id, ${alias}ord, ${alias}gone, TIMESTAMPDIFF(MICROSECOND, ${NOW}, ${alias}expires) DIV 1000`
}

function idsOf(items: readonly Joining[]): string {
  return items.length === 0 ? 'NULL' : texts(items.map(({ request }) => request.id))
}

export function stripesOf(items: readonly Joining[]): number[] {
  return [...new Set(items.map(({ stripe }) => stripe))].sort((a, b) => a - b)
}

function lockSql(tables: Tables, items: readonly Joining[]): string {
  return `SELECT GROUP_CONCAT(id) INTO @holdfast_got FROM ${tables.stripe} WHERE id IN (${stripesOf(items).join(',')}) FOR UPDATE SKIP LOCKED`
}

/** By stripe, so two lines of one stripe may be taken for busy when only one is: that costs a second look, no more. */
export function busySql(tables: Tables, items: readonly Joining[]): string {
  const lines = [...new Set(items.map(({ line }) => line))]
  if (lines.length === 0) return 'SET @holdfast_busy = NULL'
  // One line is asked for one ticket, however long it is.
  if (lines.length === 1)
    return `SET @holdfast_busy = (SELECT ${items[0]!.stripe} FROM ${tables.ticket} WHERE line = ${text(lines[0]!)} LIMIT 1)`
  return `SELECT GROUP_CONCAT(DISTINCT CRC32(line) & 65535) INTO @holdfast_busy FROM ${tables.ticket} WHERE line IN (${texts(lines)})`
}

function takeoverSql(tables: Tables, items: readonly Joining[]): string[] {
  const statements: string[] = []
  for (const { request, line, stripe } of items) {
    if (!request.takeover) continue
    const { owner, client } = request.holder
    const ofOwner = startsWith(`${JSON.stringify([owner]).slice(0, -1)},`)
    const ofClient = startsWith(`${JSON.stringify([owner, client]).slice(0, -1)},`)
    statements.push(
      // Once: a copy of the join that arrives later must not drop who came after it.
      `SET @holdfast_known = EXISTS (SELECT 1 FROM ${tables.ticket} WHERE id = ${text(request.id)})`,
      // What was released already keeps others out on purpose (minHold): it stays.
      `DELETE FROM ${tables.ticket} WHERE NOT @holdfast_known AND FIND_IN_SET(${stripe}, @holdfast_got) AND line = ${text(line)} AND gone = 0 AND ${ofOwner} AND NOT ${ofClient}`,
    )
  }
  return statements
}

function startsWith(prefix: string): string {
  return `LEFT(holder, ${Buffer.byteLength(prefix)}) = ${text(prefix)}`
}

export const COLUMNS = '(line, id, weight, capacity, expires, joined, holder)'
// A repeated join keeps its place and its lease starts anew, never to end sooner; one that has left stays gone.
export const AGAIN = 'ON DUPLICATE KEY UPDATE expires = IF(gone = 0, GREATEST(expires, VALUES(expires)), expires)'

/** Mutexes: a ticket is granted when the line is empty. One who only tries stands only then. */
function mutexSql(tables: Tables, items: readonly Joining[]): string {
  const seen = new Set<string>()
  const holders = new Map<string, number>()
  let rows = ''
  for (const [n, { request, line, stripe }] of items.entries()) {
    const holder = encodeHolder(request.holder)
    let place = holders.get(holder)
    if (place === undefined) {
      place = holders.size + 1
      holders.set(holder, place)
    }
    const first = seen.has(line) ? 0 : 1
    seen.add(line)
    const leases = `${micros(request.ttlMs)},${micros(request.waitTtlMs)}`
    rows += `${n === 0 ? '' : ' UNION ALL '}SELECT ${n},${text(line)},${stripe},${text(request.id)},${leases},${first},${request.wait ? 1 : 0},${place}`
  }
  // A client's tickets mostly have one holder between them: it goes over the wire once.
  const holder = `ELT(v.holder, ${texts([...holders.keys()])})`
  const free = 'v.first AND COALESCE(FIND_IN_SET(v.stripe, @holdfast_busy), 0) = 0'
  return (
    `INSERT INTO ${tables.ticket} ${COLUMNS} SELECT v.line, v.id, 1, 1, ${NOW} + INTERVAL IF(${free}, v.ttl, v.waitTtl) MICROSECOND, ${NOW}, ${holder} ` +
    `FROM (${NAMED} UNION ALL ${rows}) v WHERE FIND_IN_SET(v.stripe, @holdfast_got) AND (v.wait OR (${free})) ORDER BY v.n ${AGAIN}`
  )
}

/** Names the columns of the rows after it; itself it is in no stripe that anyone could lock. */
const NAMED =
  "SELECT -1 AS n,_binary'' AS line,-1 AS stripe,_binary'' AS id,0 AS ttl,0 AS waitTtl,0 AS first,0 AS wait,0 AS holder"

/** All that is no simple mutex: each ticket and each group by itself, seeing those before it. */
function otherSql(tables: Tables, items: readonly Joining[]): string[] {
  const statements: string[] = []
  const groups = new Map<string, Joining[]>()
  for (const item of items) {
    const { group } = item.request
    if (group === undefined) {
      if (!item.simple) statements.push(oneSql(tables, item))
      continue
    }
    const members = groups.get(group)
    if (members === undefined) groups.set(group, [item])
    else members.push(item)
  }
  for (const members of groups.values()) statements.push(groupSql(tables, members))
  return statements
}

/** Whether a ticket put at the end now would be granted: all who stand are, and the weights fit. */
function fitsSql(tables: Tables, { request, line }: Joining): string {
  const others = `FROM ${tables.ticket} WHERE line = ${text(line)} AND id <> ${text(request.id)}`
  if (request.line.kind === 'mutex') return `NOT EXISTS (SELECT 1 ${others})`
  const running = `SELECT capacity, SUM(weight) OVER (ORDER BY ord) AS upto ${others}`
  return (
    `NOT EXISTS (SELECT 1 FROM (${running}) w WHERE w.upto > w.capacity) ` +
    `AND (SELECT COALESCE(SUM(weight), 0) ${others}) + ${integer(request.weight)} <= ${integer(request.capacity)}`
  )
}

function oneSql(tables: Tables, item: Joining): string {
  const { request, stripe } = item
  const fits = fitsSql(tables, item)
  const lease = request.wait
    ? `IF(${fits}, ${micros(request.ttlMs)}, ${micros(request.waitTtlMs)})`
    : micros(request.ttlMs)
  const condition = `FIND_IN_SET(${stripe}, @holdfast_got)${request.wait ? '' : ` AND ${fits}`}`
  return `INSERT INTO ${tables.ticket} ${COLUMNS} ${ticketSql(item, lease)} FROM (SELECT 1) one WHERE ${condition} ${AGAIN}`
}

/** All of a group or none: every row has the conditions of all. */
function groupSql(tables: Tables, members: readonly Joining[]): string {
  const all = members
    .map((item) => `FIND_IN_SET(${item.stripe}, @holdfast_got) AND ${fitsSql(tables, item)}`)
    .join(' AND ')
  const rows = members.map((item) => ticketSql(item, micros(item.request.ttlMs)))
  return `INSERT INTO ${tables.ticket} ${COLUMNS} SELECT * FROM (${rows.join(' UNION ALL ')}) v WHERE ${all} ${AGAIN}`
}

function ticketSql({ request, line }: Joining, lease: string): string {
  const values = [text(line), text(request.id), integer(request.weight), integer(request.capacity)]
  values.push(`${NOW} + INTERVAL ${lease} MICROSECOND`, NOW, text(encodeHolder(request.holder)))
  return `SELECT ${values.map((value, i) => `${value} AS c${i}`).join(', ')}`
}
