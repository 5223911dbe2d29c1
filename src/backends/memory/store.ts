import type { BackendEvents } from '../../core/backend.js'
import { type LineKey, lineText } from '../../core/line.js'
import { MemoryLine, type Stood } from './line.js'

const SWEEP_EVERY_MS = 60_000

/** What several clients of one process share: the lines, the last order given, and who is to be told. */
export class MemoryStore {
  readonly #lines = new Map<string, MemoryLine>()
  readonly #inboxes = new Map<string, BackendEvents>()
  /** Ids that may not join any more, in the order in which they may be forgotten. */
  readonly #tombstones = new Map<string, number>()
  #order = 0n
  #sweepAt = 0

  get lines(): Iterable<MemoryLine> {
    return this.#lines.values()
  }

  nextOrder(): bigint {
    this.#order += 1n
    return this.#order
  }

  line(key: LineKey): MemoryLine | undefined {
    return this.#lines.get(lineText(key))
  }

  lineForJoin(key: LineKey, now: number): MemoryLine {
    if (now >= this.#sweepAt) this.#sweep(now)
    const text = lineText(key)
    let line = this.#lines.get(text)
    if (line === undefined) {
      line = new MemoryLine(key)
      this.#lines.set(text, line)
    }
    return line
  }

  // A hold that was never released, in a line that nobody asks for again, must not stay for ever.
  #sweep(now: number): void {
    this.#sweepAt = now + SWEEP_EVERY_MS
    for (const line of [...this.#lines.values()]) this.settle(line, now)
  }

  /** Grants what is to be granted, tells the winners, and forgets the line when nobody stands in it. */
  settle(line: MemoryLine, now: number): void {
    line.settle(now, this.tell)
    if (line.empty) this.#lines.delete(lineText(line.key))
  }

  bury(id: string, until: number, now: number): void {
    for (const [old, end] of this.#tombstones) {
      if (end > now) break
      this.#tombstones.delete(old)
    }
    this.#tombstones.set(id, until)
  }

  buried(id: string, now: number): boolean {
    const until = this.#tombstones.get(id)
    return until !== undefined && until > now
  }

  attach(client: string, events: BackendEvents): void {
    this.#inboxes.set(client, events)
  }

  detach(client: string): void {
    this.#inboxes.delete(client)
  }

  lost(ticket: Stood): void {
    const inbox = this.#inboxes.get(ticket.holder.client)
    if (inbox !== undefined) queueMicrotask(() => inbox.lost([ticket.id]))
  }

  /** Tells a winner; in a microtask, as a winner's client must not run inside the leaver's call. */
  readonly tell = (ticket: Stood): void => {
    const inbox = this.#inboxes.get(ticket.holder.client)
    if (inbox !== undefined) queueMicrotask(() => inbox.granted(ticket.id, ticket.order))
  }
}
