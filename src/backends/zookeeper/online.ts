import { BackendError } from '../../core/errors.js'
import { CODE, ZooKeeperError } from './client/errors.js'
import type { Session } from './client/session.js'
import { failure } from './failures.js'

/** While servers take connections but serve nobody (they are electing a leader), an open waits for so long. */
const OPEN_MS = 5_000

/** Lets calls wait a little for a connection that is being made again, instead of failing at once. */
export class Online {
  readonly #session: Session
  readonly #waiting = new Set<() => void>()

  constructor(session: Session) {
    this.#session = session
  }

  get now(): boolean {
    return this.#session.state === 'connected'
  }

  /** Resolves when connected; throws when that takes long. */
  async soon(doing: string, ms: number = Math.min(2_000, this.#session.timeoutMs / 3)): Promise<void> {
    if (this.#session.state === 'connected') return
    if (this.#session.state !== 'closed') await this.#wait(ms)
    // The state may have changed while waiting.
    if ((this.#session.state as string) === 'connected') return
    throw new BackendError(
      `ZooKeeper cannot be reached to ${doing}: ${this.#session.lastError?.message ?? 'closed'}.`,
      {
        cause: this.#session.lastError,
        retryable: true,
      },
    )
  }

  connected(): void {
    for (const wake of this.#waiting) wake()
  }

  close(): void {
    this.connected()
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer)
        this.#waiting.delete(wake)
        resolve()
      }
      const timer = setTimeout(wake, ms)
      timer.unref()
      this.#waiting.add(wake)
    })
  }
}

/** Makes the first connection. What will not get better by itself is said at once. */
export async function connectFirst(session: Session, online: Online): Promise<void> {
  session.start()
  const until = performance.now() + OPEN_MS
  for (;;) {
    try {
      await online.soon('open', 50)
      return
    } catch (error) {
      // As it is now: closing ends a dial that may be under way, and then that is the last there was.
      const { lastError } = session
      const cause = lastError?.cause
      // Closed meanwhile: then nothing is waited for any more.
      const final = session.state === 'closed' || isFinal(session, cause)
      if (!final && performance.now() < until) continue
      await session.close()
      if (cause instanceof ZooKeeperError && cause.code === CODE.authFailed) throw failure(cause, 'open')
      const why = lastError?.message ?? 'no server answered'
      throw new BackendError(`ZooKeeper cannot be reached: ${why}. Check the hosts and ports of the URL, and tls.`, {
        cause: lastError ?? error,
        retryable: true,
      })
    }
  }
}

/** Whether every host has been tried and none can be talked to, or the credentials are wrong. */
function isFinal(session: Session, cause: unknown): boolean {
  if (cause instanceof ZooKeeperError && cause.code === CODE.authFailed) return true
  if (session.failedDials <= session.hostCount) return false
  return cause instanceof Error && 'code' in cause
}
