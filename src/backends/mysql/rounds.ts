/** Work that is done again and again until it is closed, at times that differ from process to process. */
export class Rounds {
  readonly #pauseMs: number
  readonly #work: () => Promise<unknown>
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(pauseMs: number, work: () => Promise<unknown>) {
    this.#pauseMs = pauseMs
    this.#work = work
  }

  /** One round now, the next ones now and then. */
  begin(): void {
    // What fails now is done by the next round, or by another process.
    this.#work().then(
      () => this.later(),
      () => this.later(),
    )
  }

  /** The first round after a pause too. */
  later(): void {
    if (this.#closed) return
    this.#timer = setTimeout(() => this.begin(), this.#pauseMs * (0.5 + Math.random())).unref()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }
}
