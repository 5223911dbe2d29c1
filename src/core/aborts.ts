/**
 * One listener a signal, however many acquires share it: a signal that stops a whole service may
 * have thousands, and Node warns of a leak at eleven.
 */
export class Aborts {
  readonly #bySignal = new WeakMap<AbortSignal, Set<() => void>>()

  /** Calls back when the signal aborts; the returned function takes it back. */
  on(signal: AbortSignal, fn: () => void): () => void {
    let listeners = this.#bySignal.get(signal)
    if (listeners === undefined) {
      listeners = new Set()
      this.#bySignal.set(signal, listeners)
      this.#listen(signal, listeners)
    }
    listeners.add(fn)
    return () => {
      listeners.delete(fn)
      if (listeners.size === 0) this.#unlisten.get(listeners)?.()
    }
  }

  readonly #unlisten = new WeakMap<Set<() => void>, () => void>()

  #listen(signal: AbortSignal, listeners: Set<() => void>): void {
    const onAbort = (): void => {
      for (const fn of [...listeners]) fn()
    }
    signal.addEventListener('abort', onAbort, { once: true })
    this.#unlisten.set(listeners, () => {
      signal.removeEventListener('abort', onAbort)
      this.#bySignal.delete(signal)
    })
  }
}
