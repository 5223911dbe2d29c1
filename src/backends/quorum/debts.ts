import type { LeaveRequest } from '../../core/backend.js'
import { lineText } from '../../core/line.js'

/** A join that was broken off may arrive late: for so long it finds a tombstone. */
export const TOMBSTONE_MS = 60_000
/**
 * No more are noted, and the first ones stay: those were under way when the connection broke. What follows asked a
 * server that was out of reach already.
 */
const MOST = 1_000

interface Debt {
  readonly leave: LeaveRequest
  readonly keepUntil: number
  /** Monotonic: by then the ticket has lapsed by itself, however late its join arrived. */
  readonly until: number
  underWay: boolean
}

/** The leaves that one server did not confirm: a ticket that may stand there, and that nobody wants any more. */
export class Debts {
  readonly #longestLeaseMs: number
  /** By ticket, and so by `until` as well. */
  readonly #debts = new Map<string, Debt>()

  constructor(longestLeaseMs: number) {
    this.#longestLeaseMs = longestLeaseMs
  }

  get size(): number {
    return this.#debts.size
  }

  /** Where a ticket is owed. */
  lines(): Set<string> {
    return new Set([...this.#debts.values()].map(({ leave }) => lineText(leave.line)))
  }

  owe(leave: LeaveRequest, now: number): void {
    this.#debts.delete(leave.id)
    this.#forgetLapsed(now)
    if (this.#debts.size >= MOST) return
    this.#debts.set(leave.id, {
      leave: { ...leave, tombstoneMs: Math.max(TOMBSTONE_MS, leave.tombstoneMs) },
      keepUntil: now + leave.keepMs,
      until: now + TOMBSTONE_MS + this.#longestLeaseMs,
      underWay: false,
    })
  }

  /** What is to be told now; it counts as under way until it is `paid` or `failed`. */
  due(now: number): LeaveRequest[] {
    this.#forgetLapsed(now)
    const due: LeaveRequest[] = []
    for (const debt of this.#debts.values()) {
      if (debt.underWay) continue
      debt.underWay = true
      due.push({ ...debt.leave, keepMs: Math.max(0, Math.ceil(debt.keepUntil - now)) })
    }
    return due
  }

  paid(id: string): void {
    this.#debts.delete(id)
  }

  failed(id: string): void {
    const debt = this.#debts.get(id)
    if (debt !== undefined) debt.underWay = false
  }

  #forgetLapsed(now: number): void {
    for (const [id, { until }] of this.#debts) {
      if (now < until) return
      this.#debts.delete(id)
    }
  }
}
