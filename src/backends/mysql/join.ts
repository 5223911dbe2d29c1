import type { JoinRequest, Standing } from '../../core/backend.js'
import { BackendError } from '../../core/errors.js'
import type { Connections } from './connections.js'
import { type Joining, joining, joinSql } from './join-sql.js'
import { readBorders } from './look.js'
import { bigint, flag, number, type Rows, string } from './rows.js'
import { dropOrders } from './lapsed.js'
import { integer, texts } from './sql-text.js'
import type { Tables } from './tables.js'
import type { Watch } from './watch.js'

/** A line's lock is held for one short transaction. Who does not get it for this long is told so, and may ask again. */
const LOCK_PATIENCE_MS = 150
/** A waiting ticket's grant is found by the watch; the renewal of its lease is only the second way to learn. */
export const LOOK_AGAIN_MS = 60_000

interface Stood {
  readonly order: bigint
  readonly gone: boolean
  readonly leftMs: number
  readonly granted: boolean
  readonly ahead: number
}

interface Answer {
  /** The stripes whose locks we had. */
  readonly got: ReadonlySet<number>
  readonly stood: ReadonlyMap<string, Stood>
  readonly dead: readonly bigint[]
}

/** Puts tickets in line. */
export class Joiner {
  readonly #connections: Connections
  readonly #tables: Tables
  readonly #watch: Watch

  constructor(connections: Connections, tables: Tables, watch: Watch) {
    this.#connections = connections
    this.#tables = tables
    this.#watch = watch
  }

  async join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    const standings = new Map<string, Standing>()
    let open = requests.map(joining)
    const patience = performance.now() + LOCK_PATIENCE_MS
    for (let tries = 1; ; tries += 1) {
      const answer = await this.#send(open)
      let refused = await this.#settle(open, answer, standings)
      // Lapsed tickets were in the way: they are dropped now, so ask those again.
      if (
        refused.length > 0 &&
        (answer.dead.length === 0 || (await dropOrders(this.#connections, this.#tables, answer.dead)) === 0)
      )
        refused = []
      open = open.filter((item) => !standings.has(item.request.id) || refused.includes(item))
      if (open.length === 0) break
      for (const item of refused) standings.delete(item.request.id)
      if (performance.now() >= patience) {
        for (const { request } of open) standings.set(request.id, { state: 'failed', error: lockedError() })
        break
      }
      await pause(Math.random() * Math.min(8, tries))
    }
    return requests.map(({ id }) => standings.get(id)!)
  }

  async #send(items: readonly Joining[]): Promise<Answer> {
    const { sql, skip } = joinSql(this.#tables, items)
    const results = await this.#connections.run(sql, 'joining')
    const [gotRows, own, dead, ...looked] = results.slice(skip)
    const borders = readBorders(looked)
    const byId = new Map(items.map((item) => [item.request.id, item]))
    const stood = new Map<string, Stood>()
    for (const [id, ord, gone, left, ahead] of own ?? []) {
      const item = byId.get(string(id))
      if (item === undefined) continue
      const order = bigint(ord)
      const granted =
        item.request.line.kind === 'mutex' ? number(ahead) === 0 : order <= (borders.get(item.line)?.order ?? 0n)
      stood.set(item.request.id, { order, gone: flag(gone), leftMs: number(left), granted, ahead: number(ahead) })
    }
    return {
      got: new Set(string(gotRows?.[0]?.[0]).split(',').map(Number)),
      stood,
      dead: Array.isArray(dead) ? (dead as Rows).map(([ord]) => bigint(ord)) : [],
    }
  }

  /** Answers for every item whose line's lock we had. Gives back those that were refused. */
  async #settle(
    items: readonly Joining[],
    { got, stood }: Answer,
    standings: Map<string, Standing>,
  ): Promise<Joining[]> {
    const refused: Joining[] = []
    const toUndo: string[] = []
    for (const unit of units(items)) {
      if (!unit.every((item) => got.has(item.stripe))) continue
      const whole = unit.every(({ request }) => stood.get(request.id)?.granted === true && !stood.get(request.id)!.gone)
      for (const item of unit) {
        const { request } = item
        const ticket = stood.get(request.id)
        const standing = standingOf(request, ticket, request.group === undefined || whole)
        standings.set(request.id, standing)
        if (standing.state === 'refused') {
          refused.push(item)
          if (ticket !== undefined) toUndo.push(request.id)
        } else if (standing.state === 'waiting') {
          this.#watch.add({ id: request.id, order: ticket!.order, line: request.line, capacity: request.capacity })
        }
      }
    }
    if (toUndo.length > 0) {
      const sql = `DELETE FROM ${this.#tables.ticket} WHERE id IN (${texts(toUndo)}) AND gone = 0`
      await this.#connections.run(sql, 'taking back a group that was not granted whole')
    }
    return refused
  }
}

function standingOf(request: JoinRequest, ticket: Stood | undefined, whole: boolean): Standing {
  if (ticket === undefined) return request.wait ? { state: 'gone' } : { state: 'refused' }
  if (ticket.gone) return { state: 'gone' }
  if (ticket.granted && whole) return { state: 'granted', order: ticket.order, ttlMs: Math.min(request.ttlMs, ticket.leftMs) }
  if (!request.wait) return { state: 'refused' }
  return { state: 'waiting', ahead: ticket.ahead, ttlMs: Math.min(request.waitTtlMs, ticket.leftMs), lookAgainMs: LOOK_AGAIN_MS }
}

/** What is answered together: a group, or one request. */
function units(items: readonly Joining[]): Joining[][] {
  const groups = new Map<string, Joining[]>()
  const all: Joining[][] = []
  for (const item of items) {
    const { group } = item.request
    const known = group === undefined ? undefined : groups.get(group)
    if (known !== undefined) {
      known.push(item)
      continue
    }
    const unit = [item]
    all.push(unit)
    if (group !== undefined) groups.set(group, unit)
  }
  return all
}

function lockedError(): BackendError {
  return new BackendError(
    `MySQL failed while joining: another transaction has kept the line's row locked for more than ${integer(LOCK_PATIENCE_MS)} ms.`,
    { retryable: true },
  )
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}
