/** Whoever asked for a ticket to go and was not answered asks again sooner than this. */
export const ASKED_AGAIN_MS = 60_000

/**
 * Ids whose ticket was left while a join of it was unanswered: such a join, tried again, finds it gone.
 * They need not be on the servers: only this client ever joins under its ids, and a request of its own that
 * is still on its way comes too late (see `Doubts`).
 */
export class Tombstones {
  readonly #until = new Map<string, number>()

  bury(id: string, ms: number): void {
    const now = performance.now()
    // Oldest first, so what has lapsed is found at the front.
    for (const [old, until] of this.#until) {
      if (until > now) break
      this.#until.delete(old)
    }
    this.#until.set(id, now + ms)
  }

  has(id: string): boolean {
    return (this.#until.get(id) ?? 0) > performance.now()
  }
}
