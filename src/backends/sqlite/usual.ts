/**
 * The usual cases, each in one statement and without reading anything: a line that nobody stands in, a ticket that
 * stands first, a ticket that nobody waits behind. Where a case is not the usual one for every item of a call,
 * the ledger decides. One item is bound as it is; several go as one JSON text.
 */
import type { JoinRequest, LeaveRequest, RenewRequest } from '../../core/backend.js'
import { lineText } from '../../core/line.js'
import { type Card, isAsOnCard, isPlain } from './holder.js'
import { CLOCK, now } from './process.js'
import type { Statements } from './statements.js'

/**
 * Joins lines that nobody stands in. The order of the first, when that was true of all of them: the others follow.
 * Else those that did get in are found standing by what follows, as a repeated join would be.
 */
export function joinFree(sql: Statements, requests: readonly JoinRequest[], card: Card): number | undefined {
  const [first] = requests
  if (first === undefined || first.weight > first.capacity) return undefined
  const lines = new Set<string>()
  const items: string[] = []
  for (const request of requests) {
    if (!isLike(request, first) || !isAsOnCard(request.holder, card)) return undefined
    const line = lineText(request.line)
    lines.add(line)
    items.push(`${request.id} ${line}`)
  }
  if (lines.size < items.length) return undefined
  const values = [now(), CLOCK, card.key, first.weight, first.capacity, first.ttlMs]
  const { changes, lastInsertRowid } =
    items.length === 1
      ? sql.joinOneFree.run([first.id, ...values, lineText(first.line)])
      : sql.joinFree.run([JSON.stringify(items), ...values])
  return changes === items.length ? Number(lastInsertRowid) - items.length + 1 : undefined
}

function isLike(request: JoinRequest, first: JoinRequest): boolean {
  return (
    request.weight === first.weight &&
    request.capacity === first.capacity &&
    request.ttlMs === first.ttlMs &&
    request.group === undefined &&
    isPlain(request.holder)
  )
}

/** Renews tickets that stand first in their lines, so are granted. True when that was true of all of them. */
export function renewFirst(sql: Statements, requests: readonly RenewRequest[]): boolean {
  const [first] = requests
  const items: Record<string, string> = {}
  for (const { order, id, handle, ttlMs, nextHandle, nextHolder } of requests) {
    if (order === undefined || ttlMs !== first!.ttlMs || handle !== id) return false
    if (nextHandle !== undefined || nextHolder !== undefined) return false
    items[String(order)] = id
  }
  if (first === undefined) return true
  const { changes } =
    requests.length === 1
      ? sql.renewOneFirst.run([Number(first.order), now(), CLOCK, first.ttlMs, first.id])
      : sql.renewFirst.run([JSON.stringify(items), now(), CLOCK, first.ttlMs])
  return changes === requests.length
}

/** Lets tickets go that nobody waits behind, so that there is nobody to tell. True when that was true of all of them. */
export function leaveAlone(sql: Statements, requests: readonly LeaveRequest[]): boolean {
  const [first] = requests
  const items: Record<string, string> = {}
  for (const { order, id, handle, keepMs, tombstoneMs } of requests) {
    if (order === undefined || handle !== id || keepMs > 0 || tombstoneMs > 0) return false
    items[String(order)] = id
  }
  if (first === undefined) return true
  const { changes } =
    requests.length === 1
      ? sql.leaveOneAlone.run([Number(first.order), now(), CLOCK, first.id])
      : sql.leaveAlone.run([JSON.stringify(items), now(), CLOCK])
  return changes === requests.length
}
