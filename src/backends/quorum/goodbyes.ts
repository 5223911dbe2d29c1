import type { FloorBackend, LeaveRequest } from '../../core/backend.js'
import type { BackendError } from '../../core/errors.js'
import { type LineKey, lineText } from '../../core/line.js'
import { Debts } from './debts.js'

/** A server that did not take its debts is out of reach, mostly; then it is told when it is back. */
const OWE_AGAIN_MS = 500

type Left = boolean | BackendError

/** What one server is told of tickets that leave, until it has confirmed it. */
export class Goodbyes {
  readonly #backend: FloorBackend
  readonly #debts: Debts
  /** How many leaves are under way, by line. */
  readonly #underWay = new Map<string, number>()
  #tellDebtsAt = 0

  constructor(backend: FloorBackend, maxTtlMs: number) {
    this.#backend = backend
    this.#debts = new Debts(maxTtlMs)
  }

  async send(requests: readonly LeaveRequest[]): Promise<Left[]> {
    const lines = requests.map(({ line }) => lineText(line))
    for (const line of lines) this.#underWay.set(line, (this.#underWay.get(line) ?? 0) + 1)
    try {
      return await this.#backend.leave(requests)
    } finally {
      for (const line of lines) this.#ended(line)
    }
  }

  owe(leaves: readonly LeaveRequest[]): void {
    const now = performance.now()
    for (const leave of leaves) this.#debts.owe(leave, now)
  }

  /** Sent in this very turn: what is asked next comes after it. */
  tellDebts(): void {
    if (this.#debts.size === 0) return
    const now = performance.now()
    if (now < this.#tellDebtsAt) return
    const due = this.#debts.due(now)
    const { maxBatch } = this.#backend
    for (let from = 0; from < due.length; from += maxBatch) this.#tell(due.slice(from, from + maxBatch))
  }

  /** The server is back. */
  tellDebtsAtOnce(): void {
    this.#tellDebtsAt = 0
    this.tellDebts()
  }

  /**
   * For each of these lines, whether a ticket of this client may stand there although it left; undefined where none
   * does. A leave that takes two messages is overtaken by the join behind it.
   */
  mayLinger(requests: readonly { readonly line: LineKey }[]): readonly boolean[] | undefined {
    if (this.#underWay.size === 0 && this.#debts.size === 0) return undefined
    const owed = this.#debts.lines()
    const lingering = requests.map(({ line }) => {
      const text = lineText(line)
      return this.#underWay.has(text) || owed.has(text)
    })
    return lingering.includes(true) ? lingering : undefined
  }

  #tell(leaves: readonly LeaveRequest[]): void {
    this.#backend.leave(leaves).then(
      (answers) => {
        for (const [i, { id }] of leaves.entries()) {
          if (typeof answers[i] === 'boolean') this.#debts.paid(id)
          else this.#debts.failed(id)
        }
      },
      () => {
        this.#tellDebtsAt = performance.now() + OWE_AGAIN_MS
        for (const { id } of leaves) this.#debts.failed(id)
      },
    )
  }

  #ended(line: string): void {
    const count = this.#underWay.get(line)! - 1
    if (count === 0) this.#underWay.delete(line)
    else this.#underWay.set(line, count)
  }
}
