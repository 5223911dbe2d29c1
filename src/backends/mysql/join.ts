import type { JoinRequest, Standing } from '../../core/backend.js'
import { BackendError } from '../../core/errors.js'
import type { Connections } from './connections.js'
import { isPlain, plainJoinSql } from './join-plain.js'
import { type Joining, joining, joinSql, standingSql } from './join-sql.js'
import { dropOrders } from './lapsed.js'
import { readBorders } from './look.js'
import { bigint, flag, number, type Rows, string, type Value } from './rows.js'
import { texts } from './sql-text.js'
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
  /** Undefined: not known yet. */
  readonly granted?: boolean
  readonly ahead: number
}

interface Answer {
  /** The stripes whose locks we had. */
  readonly got: ReadonlySet<number>
  readonly stood: Map<string, Stood>
  dead: readonly bigint[]
}

/** Puts tickets in line. */
export class Joiner {
  readonly #connections: Connections
  readonly #tables: Tables
  readonly #watch: Watch
  /** MariaDB gives the rows that an INSERT made; on MySQL they are read back. */
  readonly #returning: boolean

  constructor(connections: Connections, tables: Tables, watch: Watch, returning: boolean) {
    this.#connections = connections
    this.#tables = tables
    this.#watch = watch
    this.#returning = returning
  }

  async join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    const ids = requests.map(({ id }) => id)
    this.#watch.joining(ids)
    try {
      return await this.#join(requests)
    } finally {
      this.#watch.joined(ids)
    }
  }

  async #join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    const standings = new Map<string, Standing>()
    let open = requests.map(joining)
    const patience = performance.now() + LOCK_PATIENCE_MS
    for (let tries = 1; open.length > 0; ) {
      const wave = firstOfLines(open)
      const answer = (tries === 1 ? await this.#sendPlain(wave) : undefined) ?? (await this.#send(wave))
      let refused = await this.#settle(wave, answer, standings)
      // Lapsed tickets were in the way: they are dropped now, so ask those again.
      if (refused.length > 0 && (await dropOrders(this.#connections, this.#tables, answer.dead)) === 0) refused = []
      for (const { request } of refused) standings.delete(request.id)
      const before = open.length
      open = open.filter(({ request }) => !standings.has(request.id))
      if (open.length === 0 || open.length < before) continue
      if (performance.now() >= patience) {
        for (const { request } of open) standings.set(request.id, { state: 'failed', error: lockedError() })
        break
      }
      await pause(Math.random() * Math.min(8, tries))
      tries += 1
    }
    return requests.map(({ id }) => standings.get(id)!)
  }

  async #send(items: readonly Joining[]): Promise<Answer> {
    const statements = joinSql(this.#tables, items, this.#returning)
    const skip = statements.length
    // Who will need the second look anyway gets it in the same packet.
    const doubtful = items.filter((item) => !item.simple || this.#watch.has(item.line))
    if (doubtful.length > 0) statements.push(...standingSql(this.#tables, doubtful))
    const results = await this.#connections.run(statements.join(';'), 'joining')
    const [got, busy] = results[skip - 1]?.[0] ?? []
    const answer: Answer = { got: numbers(got), stood: new Map(), dead: [] }
    this.#readMutexes(items, results[skip - 3] ?? [], numbers(busy), answer)
    if (doubtful.length > 0) readStandings(doubtful, results.slice(skip), answer)
    await this.#lookAgain(items, answer, doubtful)
    return answer
  }

  /** Where those stand of whom it is not known yet. */
  async #lookAgain(items: readonly Joining[], answer: Answer, looked: readonly Joining[]): Promise<void> {
    const unknown = items.filter((item) => isUnknown(item, answer) && !looked.includes(item))
    if (unknown.length === 0) return
    const results = await this.#connections.run(standingSql(this.#tables, unknown).join(';'), 'joining')
    readStandings(unknown, results, answer)
  }

  /** The short way, for the usual joins. Undefined: it was not to be gone, and nothing was done. */
  async #sendPlain(items: readonly Joining[]): Promise<Answer | undefined> {
    if (!this.#returning || !items.every(isPlain)) return undefined
    const doubtful = items.filter(({ line }) => this.#watch.has(line))
    const further = doubtful.length === 0 ? [] : standingSql(this.#tables, doubtful)
    const results = await this.#connections.run(plainJoinSql(this.#tables, items, further), 'joining')
    const [rows = []] = results
    if (rows.length === 0) return undefined
    const answer: Answer = { got: new Set(items.map(({ stripe }) => stripe)), stood: new Map(), dead: [] }
    this.#readMutexes(items, rows, new Set(), answer)
    if (doubtful.length > 0) readStandings(doubtful, results.slice(1), answer)
    await this.#lookAgain(items, answer, doubtful)
    return answer
  }

  /** The first ticket of a line that was empty under its lock is granted: no need to look again. */
  #readMutexes(items: readonly Joining[], rows: Rows, busy: ReadonlySet<number>, answer: Answer): void {
    const byId = new Map(items.map((item) => [item.request.id, item]))
    const seen = new Set<string>()
    for (const { request, line, simple } of items) {
      // Of several tickets of one line only the first can be.
      if (simple && seen.has(line)) byId.delete(request.id)
      seen.add(line)
    }
    for (const [id, ord, gone, left, wasBusy] of rows) {
      const item = byId.get(string(id))
      if (item === undefined || busy.has(item.stripe) || flag(wasBusy)) continue
      answer.stood.set(item.request.id, {
        order: bigint(ord),
        gone: flag(gone),
        leftMs: number(left),
        granted: true,
        ahead: 0,
      })
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

/** What one packet can carry: of one line's mutex tickets all who wait, or one who tries, since it must see who came before. */
function firstOfLines(items: readonly Joining[]): Joining[] {
  const tried = new Map<string, boolean>()
  return items.filter(({ request, line, simple }) => {
    if (!simple) return true
    const before = tried.get(line)
    if (before === undefined) tried.set(line, !request.wait)
    else if (before || !request.wait) tried.set(line, true)
    return before === undefined || (!before && request.wait)
  })
}

function isUnknown({ request, stripe }: Joining, { got, stood }: Answer): boolean {
  return got.has(stripe) && stood.get(request.id)?.granted === undefined
}

function readStandings(items: readonly Joining[], [own, dead, ...looked]: readonly Rows[], answer: Answer): void {
  const byId = new Map(items.map((item) => [item.request.id, item]))
  const borders = readBorders(looked)
  for (const [id, ord, gone, left, count] of own ?? []) {
    const item = byId.get(string(id))
    if (item === undefined) continue
    const order = bigint(ord)
    const ahead = number(count)
    const granted = item.request.line.kind === 'mutex' ? ahead === 0 : order <= (borders.get(item.line)?.order ?? 0n)
    answer.stood.set(item.request.id, { order, gone: flag(gone), leftMs: number(left), granted, ahead })
  }
  if (dead !== undefined) answer.dead = [...answer.dead, ...dead.map(([ord]) => bigint(ord))]
}

function standingOf(request: JoinRequest, ticket: Stood | undefined, whole: boolean): Standing {
  if (ticket === undefined) return request.wait ? { state: 'gone' } : { state: 'refused' }
  if (ticket.gone) return { state: 'gone' }
  if (ticket.granted && whole)
    return { state: 'granted', order: ticket.order, ttlMs: Math.min(request.ttlMs, ticket.leftMs) }
  if (!request.wait) return { state: 'refused' }
  const ttlMs = Math.min(request.waitTtlMs, ticket.leftMs)
  return { state: 'waiting', ahead: ticket.ahead, ttlMs, lookAgainMs: LOOK_AGAIN_MS }
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

function numbers(list: Value | undefined): Set<number> {
  return list === null || list === undefined ? new Set() : new Set(list.split(',').map(Number))
}

function lockedError(): BackendError {
  return new BackendError(
    `MySQL failed while joining: another transaction has kept the line's row locked for more than ${LOCK_PATIENCE_MS} ms.`,
    { retryable: true },
  )
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}
