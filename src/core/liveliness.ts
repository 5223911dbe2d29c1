/** How long the process may live on after the last of it: switching the timer on and off for each cost a tenth of an acquire. */
const SHORT_MS = 16
/** Node cannot time longer than this. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Keeps the process alive while something is pending: a pending acquire does, a held lease never. */
export class Liveliness {
  #pending = 0
  #timer: NodeJS.Timeout | undefined
  #timerMs = SHORT_MS

  begin(): void {
    this.#pending += 1
    if (this.#timer === undefined) this.#wait(SHORT_MS)
  }

  end(): void {
    this.#pending -= 1
    // A short one is left to find out by itself: mostly, something else is pending by then.
    if (this.#pending === 0 && this.#timerMs > SHORT_MS) this.close()
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #wait(ms: number): void {
    this.#timerMs = ms
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#pending > 0) this.#wait(Math.min(ms * 4, LONGEST_TIMER_MS))
    }, ms)
  }
}
