import type { RenewRequest, Standing } from '../../core/backend.js'
import { withAhead } from './ahead.js'
import type { Connections } from './connections.js'
import { encodeHolder } from './holder.js'
import { LOOK_AGAIN_MS } from './join.js'
import { lookSql, readBorders } from './look.js'
import { bigint, flag, number, string } from './rows.js'
import { lineValue, micros, NOW, text, texts } from './sql-text.js'
import type { Tables } from './tables.js'
import type { Watch } from './watch.js'

interface Stood {
  readonly order: bigint
  readonly handle: string
  readonly leftMs: number
  readonly ahead: number
}

/**
 * Keeps tickets alive. Takes no line's lock, only the rows' own: so no join can hold it up.
 * A ticket whose order the caller knows has been granted, and stays so; the others may still wait.
 */
export async function renew(
  connections: Connections,
  tables: Tables,
  watch: Watch,
  requests: readonly RenewRequest[],
): Promise<Standing[]> {
  const holding = requests.filter(({ order }) => order !== undefined)
  const unsure = requests.filter(({ order }) => order === undefined)
  const { stood, borders } = await send(connections, tables, requests, [
    ...requests.filter(({ nextHandle }) => nextHandle !== undefined).map((request) => swapSql(tables, request)),
    ...extendSql(tables, holding, (request) => request.ttlMs),
    ...keepSql(tables, unsure),
  ])
  const granted = unsure.filter((request) => isGranted(request, stood.get(request.id), borders))
  // What a waiting lease has left would do for now; the caller asks for the whole.
  if (granted.length > 0) {
    const again = await send(
      connections,
      tables,
      granted,
      extendSql(tables, granted, (request) => request.ttlMs),
    )
    for (const { id } of granted) {
      const ticket = again.stood.get(id)
      if (ticket === undefined) stood.delete(id)
      else stood.set(id, ticket)
    }
  }
  const holds = new Set([...holding, ...granted].map(({ id }) => id))
  return requests.map((request) => {
    const ticket = stood.get(request.id)
    if (ticket === undefined || ticket.handle !== currentHandle(request)) {
      watch.remove(request.id)
      return { state: 'gone' }
    }
    if (holds.has(request.id)) {
      watch.remove(request.id)
      return { state: 'granted', order: ticket.order, ttlMs: Math.min(request.ttlMs, ticket.leftMs) }
    }
    return {
      state: 'waiting',
      ahead: ticket.ahead,
      ttlMs: Math.min(request.waitTtlMs, ticket.leftMs),
      lookAgainMs: LOOK_AGAIN_MS,
    }
  })
}

async function send(
  connections: Connections,
  tables: Tables,
  requests: readonly RenewRequest[],
  updates: readonly string[],
) {
  const many = updates.length > 1
  const statements = [...(many ? ['START TRANSACTION'] : []), ...updates, ...(many ? ['COMMIT'] : [])]
  const skip = statements.length
  const waiting = requests.filter(({ order }) => order === undefined)
  const left = `TIMESTAMPDIFF(MICROSECOND, ${NOW}, t.expires) DIV 1000`
  const columns = `t.id, t.ord, t.handle, ${left}, t.expires > ${NOW}`
  const ids = requests.map(({ id }) => id)
  // Counting who is ahead is only for those who wait.
  const found =
    waiting.length === 0
      ? `SELECT ${columns}, 0 FROM ${tables.ticket} t WHERE t.id IN (${texts(ids)})`
      : withAhead(
          tables.ticket,
          columns,
          ids,
          waiting.map(({ line }) => lineValue(line)),
        )
  statements.push(`${found} AND t.gone = 0`)
  const others = waiting.filter(({ line }) => line.kind !== 'mutex')
  // The capacity of a renewal is not known here: look at the whole line.
  statements.push(
    ...lookSql(
      tables.ticket,
      others.map(({ line }) => ({ line, capacity: Number.MAX_SAFE_INTEGER })),
    ),
  )
  const results = await connections.run(statements.join(';'), 'renewing')
  const stood = new Map<string, Stood>()
  for (const [id, ord, handle, leftMs, alive, before] of results[skip] ?? []) {
    if (!flag(alive)) continue
    const key = string(id)
    stood.set(key, {
      order: bigint(ord),
      handle: handle === null ? key : string(handle),
      leftMs: number(leftMs),
      ahead: number(before),
    })
  }
  return { stood, borders: readBorders(results.slice(skip + 1)) }
}

function isGranted(request: RenewRequest, ticket: Stood | undefined, borders: ReturnType<typeof readBorders>): boolean {
  if (ticket === undefined) return false
  if (request.line.kind === 'mutex') return ticket.ahead === 0
  return ticket.order <= (borders.get(lineValue(request.line))?.order ?? 0n)
}

/** Sets leases anew, one statement for those of one length. */
function extendSql(
  tables: Tables,
  requests: readonly RenewRequest[],
  lease: (request: RenewRequest) => number,
): string[] {
  return grouped(requests, lease).map(
    ([ttl, same]) =>
      `UPDATE ${tables.ticket} SET expires = ${NOW} + INTERVAL ${ttl} MICROSECOND WHERE ${standing(same)} AND expires > ${NOW}`,
  )
}

/**
 * Lengthens the leases of tickets that may wait, where a quarter or more has run off: looking is not writing.
 * Never shortens one: it may be a hold's, and its holder may not hear of it.
 */
function keepSql(tables: Tables, requests: readonly RenewRequest[]): string[] {
  return grouped(requests, ({ waitTtlMs }) => waitTtlMs).map(
    ([ttl, same]) =>
      `UPDATE ${tables.ticket} SET expires = ${NOW} + INTERVAL ${ttl} MICROSECOND WHERE ${standing(same)} AND expires > ${NOW} AND expires < ${NOW} + INTERVAL ${ttl} * 3 DIV 4 MICROSECOND`,
  )
}

/** Swaps the handle; a repeated swap finds the next handle there and succeeds again. */
function swapSql(tables: Tables, { id, handle, nextHandle, nextHolder }: RenewRequest): string {
  const is = handle === id ? 'handle IS NULL' : `handle = ${text(handle)}`
  const holder = nextHolder === undefined ? '' : `, holder = ${text(encodeHolder(nextHolder))}`
  return `UPDATE ${tables.ticket} SET handle = ${text(nextHandle!)}${holder} WHERE id = ${text(id)} AND (${is} OR handle = ${text(nextHandle!)}) AND gone = 0 AND expires > ${NOW}`
}

/** The rows of these tickets that stand and belong to who asks: all with their first handle, or all with a later one. */
function standing(requests: readonly RenewRequest[]): string {
  const handles = requests.map(currentHandle)
  // A handle is as unguessable as an id, so the two lists need not be compared pair by pair.
  const handle = handles[0] === requests[0]!.id ? 'handle IS NULL' : `handle IN (${texts(handles)})`
  return `id IN (${texts(requests.map(({ id }) => id))}) AND ${handle} AND gone = 0`
}

function currentHandle(request: RenewRequest): string {
  return request.nextHandle ?? request.handle
}

/** Requests by the length of the lease, those with their first handle apart from the others. */
function grouped(
  requests: readonly RenewRequest[],
  lease: (request: RenewRequest) => number,
): [string, RenewRequest[]][] {
  const groups = new Map<string, [string, RenewRequest[]]>()
  for (const request of requests) {
    const ttl = micros(lease(request))
    const name = `${ttl} ${currentHandle(request) === request.id}`
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [ttl, [request]])
    else group[1].push(request)
  }
  return [...groups.values()]
}
