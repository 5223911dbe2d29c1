/** Node cannot time longer than this. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Keeps the process alive while something is pending: a pending acquire does, a held lease never. */
export class Liveliness {
  #pending = 0
  #timer: NodeJS.Timeout | undefined

  begin(): void {
    this.#pending += 1
    if (this.#pending > 1) return
    if (this.#timer === undefined) this.#timer = setInterval(() => {}, LONGEST_TIMER_MS)
    else this.#timer.ref()
  }

  end(): void {
    this.#pending -= 1
    if (this.#pending === 0) this.#timer?.unref()
  }

  close(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
