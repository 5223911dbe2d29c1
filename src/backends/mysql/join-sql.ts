import type { JoinRequest } from '../../core/backend.js'
import { lookSql } from './look.js'
import { encodeHolder } from './holder.js'
import { integer, lineValue, micros, NOW, stripeOf, text, texts } from './sql-text.js'
import type { Tables } from './tables.js'

/** A request with what its SQL needs worked out once. */
export interface Joining {
  readonly request: JoinRequest
  readonly line: string
  readonly stripe: number
}

export function joining(request: JoinRequest): Joining {
  const line = lineValue(request.line)
  return { request, line, stripe: stripeOf(line) }
}

/** Statements that must follow each other, with the places of what the answer is read from. */
export interface JoinPacket {
  readonly sql: string
  /** How many results there are before the own tickets' rows. */
  readonly skip: number
}

/**
 * One transaction in one packet:
 * take the locks of the lines that nobody has just now · put the tickets there · commit · see where they stand.
 *
 * SKIP LOCKED: a line whose lock is taken is left out and named in the answer, so one stalled name stalls no
 * other, and nobody ever waits for a lock while holding one, so these locks cannot cross.
 * The order is drawn (AUTO_INCREMENT) while the line's lock is held and the commit comes before its release,
 * so no ticket of a line can turn up later with a smaller order than one that was seen.
 * Where they stand is read after the commit, in statements of their own, whose snapshots are newer than the lock:
 * a ticket ahead can only leave, so the answer cannot become wrong, and nobody waits for us meanwhile.
 */
export function joinSql(tables: Tables, items: readonly Joining[]): JoinPacket {
  const statements = [
    'START TRANSACTION',
    lockSql(tables, items),
    ...takeoverSql(tables, items),
    ...standSql(tables, items),
    'COMMIT',
    'SELECT @holdfast_got',
  ]
  const skip = statements.length - 1
  const ids = texts(items.map(({ request }) => request.id))
  const left = `TIMESTAMPDIFF(MICROSECOND, ${NOW}, t.expires) DIV 1000`
  const ahead = `(SELECT COUNT(*) FROM ${tables.ticket} a WHERE a.line = t.line AND a.ord < t.ord)`
  statements.push(`SELECT t.id, t.ord, t.gone, ${left}, ${ahead} FROM ${tables.ticket} t WHERE t.id IN (${ids})`)
  const tried = items.filter(({ request }) => !request.wait).map(({ line }) => line)
  const dead = `SELECT ord FROM ${tables.ticket} WHERE line IN (${texts(tried)}) AND expires <= ${NOW} LIMIT 500`
  statements.push(tried.length === 0 ? 'DO 0' : dead)
  const others = items.filter(({ request }) => request.line.kind !== 'mutex')
  statements.push(
    ...lookSql(
      tables.ticket,
      others.map(({ request }) => ({ line: request.line, capacity: request.capacity })),
    ),
  )
  return { sql: statements.join(';'), skip }
}

function lockSql(tables: Tables, items: readonly Joining[]): string {
  const stripes = [...new Set(items.map(({ stripe }) => stripe))].sort((a, b) => a - b)
  return `SELECT GROUP_CONCAT(id) INTO @holdfast_got FROM ${tables.stripe} WHERE id IN (${stripes.join(',')}) FOR UPDATE SKIP LOCKED`
}

function takeoverSql(tables: Tables, items: readonly Joining[]): string[] {
  const statements: string[] = []
  for (const { request, line, stripe } of items) {
    if (!request.takeover) continue
    const { owner, client } = request.holder
    const [ofOwner, ofClient] = [JSON.stringify([owner]).slice(0, -1), JSON.stringify([owner, client]).slice(0, -1)]
    statements.push(
      `DELETE FROM ${tables.ticket} WHERE FIND_IN_SET(${stripe}, @holdfast_got) AND line = ${text(line)} AND ${startsWith(`${ofOwner},`)} AND NOT ${startsWith(`${ofClient},`)}`,
    )
  }
  return statements
}

function startsWith(prefix: string): string {
  return `LEFT(holder, ${Buffer.byteLength(prefix)}) = ${text(prefix)}`
}

const COLUMNS = '(line, id, weight, capacity, expires, joined, holder)'
// A repeated join keeps its place and its lease starts anew, never to end sooner; one that has left stays gone.
const AGAIN = 'ON DUPLICATE KEY UPDATE expires = IF(gone = 0, GREATEST(expires, VALUES(expires)), expires)'

/** The INSERTs. Mutexes go in sets; each other ticket and each group by itself, seeing those before it. */
function standSql(tables: Tables, items: readonly Joining[]): string[] {
  const statements: string[] = []
  const waves: { waiting: Joining[]; trying: Joining[] }[] = []
  const lastWave = new Map<string, { wave: number; wait: boolean }>()
  const groups = new Map<string, Joining[]>()
  for (const item of items) {
    const { group, wait, line } = item.request
    if (group !== undefined) {
      const members = groups.get(group)
      if (members === undefined) groups.set(group, [item])
      else members.push(item)
    } else if (line.kind === 'mutex') {
      // Of one line, those who wait may stand in one statement; one who only tries must see who came before.
      const last = lastWave.get(item.line)
      const wave = last === undefined ? 0 : last.wait && wait ? last.wave : last.wave + 1
      lastWave.set(item.line, { wave, wait })
      const { waiting, trying } = (waves[wave] ??= { waiting: [], trying: [] })
      if (wait) waiting.push(item)
      else trying.push(item)
    }
  }
  for (const { waiting, trying } of waves) {
    if (waiting.length > 0) statements.push(mutexSql(tables, waiting, true))
    if (trying.length > 0) statements.push(mutexSql(tables, trying, false))
  }
  for (const item of items) {
    if (item.request.group === undefined && item.request.line.kind !== 'mutex') statements.push(oneSql(tables, item))
  }
  for (const members of groups.values()) statements.push(groupSql(tables, members))
  return statements
}

/** Mutexes: a ticket is granted when nobody stands there. */
function mutexSql(tables: Tables, items: readonly Joining[], wait: boolean): string {
  const rows = items.map(({ request, line, stripe }, n) => {
    const values = [
      n,
      text(line),
      stripe,
      text(request.id),
      micros(request.ttlMs),
      micros(request.waitTtlMs),
      text(encodeHolder(request.holder)),
    ]
    if (n > 0) return `SELECT ${values.join(',')}`
    const names = ['n', 'line', 'stripe', 'id', 'ttl', 'waitTtl', 'holder']
    return `SELECT ${values.map((value, i) => `${value} AS ${names[i]}`).join(',')}`
  })
  const free = `NOT EXISTS (SELECT 1 FROM ${tables.ticket} t WHERE t.line = v.line AND t.id <> v.id)`
  const lease = wait ? `IF(${free}, v.ttl, v.waitTtl)` : 'v.ttl'
  return (
    `INSERT INTO ${tables.ticket} ${COLUMNS} SELECT v.line, v.id, 1, 1, ${NOW} + INTERVAL ${lease} MICROSECOND, ${NOW}, v.holder ` +
    `FROM (${rows.join(' UNION ALL ')}) v WHERE FIND_IN_SET(v.stripe, @holdfast_got)${wait ? '' : ` AND ${free}`} ORDER BY v.n ${AGAIN}`
  )
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
  return `INSERT INTO ${tables.ticket} ${COLUMNS} ${ticketSql(item, lease)} FROM (SELECT 1) one WHERE FIND_IN_SET(${stripe}, @holdfast_got)${request.wait ? '' : ` AND ${fits}`} ${AGAIN}`
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
