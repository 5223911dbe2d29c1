import type { LeaveRequest } from '../../core/backend.js'
import { block } from './block.js'
import type { Connections } from './connections.js'
import { dropLapsed } from './lapsed.js'
import { lookSql, readBorders } from './look.js'
import { flag, string } from './rows.js'
import { fromNow, NOW, text, texts } from './sql-text.js'
import type { Tables } from './tables.js'
import type { Watch } from './watch.js'

/**
 * Takes tickets out of their lines, in one transaction in one packet. A leave needs no line's lock: a ticket's
 * row has one, and a tombstone takes the id's place in the unique index, so a join of that id which is still
 * under way either is there already and becomes the tombstone, or finds it.
 */
export async function leave(
  connections: Connections,
  tables: Tables,
  watch: Watch,
  requests: readonly LeaveRequest[],
  returning: boolean,
): Promise<boolean[]> {
  for (const { id } of requests) watch.left(id)
  if (returning && requests.every(isPlain)) return await leavePlain(connections, tables, watch, requests)
  const found = `SELECT id, handle, expires > ${NOW}, gone FROM ${tables.ticket} WHERE id IN (${texts(requests.map(({ id }) => id))}) AND gone <> 2 FOR UPDATE`
  const statements = ['START TRANSACTION', found, ...leaveSql(tables, requests), 'COMMIT']
  const skip = statements.length
  const waited = watch.waitedFor(requests.map(({ line }) => line))
  statements.push(...lookSql(tables.ticket, waited))
  const results = await connections.run(statements.join(';'), 'leaving')
  const stood = new Map(
    (results[1] ?? []).map(([id, handle, alive, gone]) => [
      string(id),
      { handle, alive: flag(alive), left: flag(gone) },
    ]),
  )
  tellNext(connections, tables, watch, watch.tell(readBorders(results.slice(skip))))
  return requests.map(({ id, handle }) => {
    const ticket = stood.get(id)
    if (ticket === undefined || !ticket.alive) return false
    // One that has left keeps others out for a while; only an eviction ends that.
    if (handle === undefined) return true
    return !ticket.left && handle === (ticket.handle === null ? id : string(ticket.handle))
  })
}

/** On MariaDB the usual leave is one statement that says what it has deleted. */
async function leavePlain(
  connections: Connections,
  tables: Tables,
  watch: Watch,
  requests: readonly LeaveRequest[],
): Promise<boolean[]> {
  const sql = `DELETE FROM ${tables.ticket} WHERE gone = 0 AND id IN (${texts(ids(requests))}) AND handle IS NULL RETURNING id, expires > ${NOW}`
  const looks = lookSql(tables.ticket, watch.waitedFor(requests.map(({ line }) => line)))
  const results = await connections.run(looks.length === 0 ? sql : block([sql, ...looks]), 'leaving')
  const alive = new Set<string>()
  for (const [id, live] of results[0] ?? []) if (flag(live)) alive.add(string(id))
  if (looks.length > 0)
    tellNext(connections, tables, watch, watch.tell(readBorders(results.slice(1, 1 + looks.length))))
  return requests.map(({ id }) => alive.has(id))
}

function isPlain({ id, handle, keepMs, tombstoneMs }: LeaveRequest): boolean {
  return keepMs === 0 && tombstoneMs === 0 && handle === id
}

function tellNext(connections: Connections, tables: Tables, watch: Watch, dead: readonly string[]): void {
  if (dead.length === 0) return
  // The one that left is gone whatever becomes of this; the watch tries again.
  dropLapsed(connections, tables, dead).then(
    () => watch.soon(dead),
    () => watch.soon(dead),
  )
}

function leaveSql(tables: Tables, requests: readonly LeaveRequest[]): string[] {
  const statements: string[] = []
  const plain: LeaveRequest[] = []
  const buried: LeaveRequest[] = []
  for (const request of requests) {
    if (request.keepMs > 0) {
      statements.push(
        `UPDATE ${tables.ticket} SET expires = ${fromNow(request.keepMs)}, gone = 1 WHERE id = ${text(request.id)} AND ${ofHandle(request)} AND gone = 0 AND expires > ${NOW}`,
      )
    }
    if (request.tombstoneMs > 0) buried.push(request)
    else if (request.keepMs === 0) plain.push(request)
  }
  // A handle is as unguessable as an id, so the two lists need not be compared pair by pair.
  const own = plain.filter(({ id, handle }) => handle === id)
  const swapped = plain.filter(({ id, handle }) => handle !== undefined && handle !== id)
  const evicted = plain.filter(({ handle }) => handle === undefined)
  const from = `DELETE FROM ${tables.ticket} WHERE gone = 0 AND id IN`
  if (own.length > 0) statements.push(`${from} (${texts(ids(own))}) AND handle IS NULL`)
  if (swapped.length > 0)
    statements.push(`${from} (${texts(ids(swapped))}) AND handle IN (${texts(swapped.map(({ handle }) => handle!))})`)
  if (evicted.length > 0)
    statements.push(`DELETE FROM ${tables.ticket} WHERE gone <> 2 AND id IN (${texts(ids(evicted))})`)
  for (const request of buried) statements.push(burySql(tables, request))
  return statements
}

function burySql(tables: Tables, request: LeaveRequest): string {
  const until = fromNow(request.tombstoneMs)
  const is = request.handle === undefined ? '1' : `${ofHandle(request)} AND gone IN (0, 2)`
  // A ticket that keeps others out goes on standing under its id, so it is its own tombstone meanwhile, and becomes one
  // when that is over. `gone` is assigned last of those that are asked for: an assignment sees those before it.
  return (
    `INSERT INTO ${tables.ticket} (line, id, gone, weight, capacity, expires, joined, holder) ` +
    `VALUES ('', ${text(request.id)}, 2, 0, 1, ${until}, ${NOW}, '') ON DUPLICATE KEY UPDATE ` +
    `line = IF(${is}, '', line), expires = IF(${is}, ${until}, expires), gone = IF(${is}, 2, IF(gone = 1, 3, gone))`
  )
}

function ofHandle({ id, handle }: LeaveRequest): string {
  if (handle === undefined) return '1'
  return handle === id ? 'handle IS NULL' : `handle = ${text(handle)}`
}

function ids(requests: readonly LeaveRequest[]): string[] {
  return requests.map(({ id }) => id)
}
