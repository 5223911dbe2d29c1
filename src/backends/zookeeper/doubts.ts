import type { LineKey } from '../../core/line.js'

/** A creation that was sent and never answered. */
export interface Doubt {
  readonly line: LineKey
  /** The ticket was given up: should its node be found, it goes. */
  over: boolean
}

/**
 * Creations whose answer was lost, until it is known what became of them.
 *
 * What a session asked for is done in its order, or not at all: once the session is taken up again, a request
 * that is still on its way through the broken connection comes too late. The server that the session came
 * back to has closed that connection, and any other server is refused by the leader (SessionMoved). So one
 * look after reconnecting, behind a `sync`, says for good whether the node is there: nothing can appear later.
 */
export class Doubts {
  readonly #doubts = new Map<string, Doubt>()

  get(id: string): Doubt | undefined {
    return this.#doubts.get(id)
  }

  add(id: string, line: LineKey): void {
    this.#doubts.set(id, { line, over: false })
  }

  /** It is known now: found, created anew, or not there. */
  settle(id: string): void {
    this.#doubts.delete(id)
  }

  /** Those that nobody wants any more. */
  over(): [string, LineKey][] {
    return [...this.#doubts].filter(([, { over }]) => over).map(([id, { line }]) => [id, line])
  }

  /** The session is over: what it created goes by itself, and what is still on its way is refused. */
  clear(): void {
    this.#doubts.clear()
  }
}
