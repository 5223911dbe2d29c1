import type { BackendEvents, JoinRequest } from '../../core/backend.js'
import { type LineKey, lineText } from '../../core/line.js'
import type { Keys } from './keys.js'

/** What this client hears by its inbox, and which of its own tickets that may be about. */
export class Hints {
  readonly #keys: Keys
  readonly #events: BackendEvents
  /** Where replicas must confirm, a message alone is no grant: core learns of it by a renewal that they have. */
  readonly #replicas: number
  /** The own tickets that wait, from when they ask to. */
  readonly #waiting = new Map<string, LineKey>()

  constructor(keys: Keys, events: BackendEvents, replicas: number) {
    this.#keys = keys
    this.#events = events
    this.#replicas = replicas
  }

  mayWait({ id, line }: JoinRequest): void {
    this.#waiting.set(id, line)
  }

  waitsNoMore(id: string): void {
    if (this.#waiting.size > 0) this.#waiting.delete(id)
  }

  heard(message: string): void {
    if (message.startsWith('c ')) return this.#keys.crowd(message.slice(2))
    const [word, id = '', order = ''] = message.split(' ')
    const line = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (word === 'x') return this.#events.lost([id])
    if (this.#replicas === 0) return this.#events.granted(id, BigInt(order))
    if (line !== undefined) this.#events.moved(line)
  }

  /** Some may have been missed while the inbox was away. */
  lookAgain(): void {
    const lines = new Map([...this.#waiting.values()].map((line) => [lineText(line), line]))
    for (const line of lines.values()) this.#events.moved(line)
  }
}
