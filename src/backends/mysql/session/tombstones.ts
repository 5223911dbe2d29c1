/** The ids that may not join any more, for a while: their leave came before their join was answered. */
export class Tombstones {
  readonly #until = new Map<string, number>()

  has(id: string): boolean {
    if (this.#until.size === 0) return false
    return (this.#until.get(id) ?? 0) > performance.now()
  }

  put(id: string, ms: number): void {
    const now = performance.now()
    this.#until.set(id, now + ms)
    for (const [old, until] of this.#until) {
      if (until > now) break
      this.#until.delete(old)
    }
  }
}
