import { randomBytes } from 'node:crypto'

interface Slots {
  used: number
  next: number
  readonly free: number[]
}

/** How long a key is left alone that a call from the past may still touch: longer than any call lives. */
const CALL_LIFE_MS = 120_000

/**
 * The keys that this client's tickets stand at, used again and again.
 *
 * etcd remembers every deleted key until it is compacted, and a reading of a line passes all of them. With a
 * new key for every ticket a line that was locked 10,000 times would be as slow to read as one with 10,000
 * waiters; so the next ticket takes the key of the last, as Go's does, and its create revision tells them apart.
 */
export class KeyPool {
  readonly #client: string = randomBytes(6).toString('hex')
  readonly #lines = new Map<string, Slots>()
  readonly #taken = new Map<string, { readonly shape: string; readonly slot: number }>()
  readonly #resting = new Map<string, number>()

  /** A key that no ticket of this client stands at: `stem`, the client and a number, `ending`. */
  take(stem: string, ending: string): string {
    const shape = stem + ending
    const slots = this.#lines.get(shape) ?? { used: 0, next: 0, free: [] }
    this.#lines.set(shape, slots)
    for (;;) {
      const slot = slots.free.pop() ?? slots.next++
      const key = `${stem}${this.#client}-${slot.toString(36)}${ending}`
      if (this.#rests(key)) continue
      slots.used += 1
      this.#taken.set(key, { shape, slot })
      return key
    }
  }

  has(key: string): boolean {
    return this.#taken.has(key)
  }

  /** The ticket is gone and no call about it is under way. */
  free(key: string): void {
    const taken = this.#forget(key)
    if (taken !== undefined) this.#lines.get(taken.shape)?.free.push(taken.slot)
  }

  /** A call about the ticket may still arrive, or the key stands on for another: nobody uses it for so long. */
  rest(key: string, ms: number = CALL_LIFE_MS): void {
    if (this.#forget(key) === undefined) return
    const now = performance.now()
    for (const [resting, until] of this.#resting) if (until <= now) this.#resting.delete(resting)
    this.#resting.set(key, now + ms)
  }

  #forget(key: string): { readonly shape: string; readonly slot: number } | undefined {
    const taken = this.#taken.get(key)
    const slots = taken === undefined ? undefined : this.#lines.get(taken.shape)
    if (taken === undefined || slots === undefined) return undefined
    this.#taken.delete(key)
    slots.used -= 1
    if (slots.used === 0) this.#lines.delete(taken.shape)
    return taken
  }

  #rests(key: string): boolean {
    const until = this.#resting.get(key)
    return until !== undefined && until > performance.now()
  }
}
