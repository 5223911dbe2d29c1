import type { Connection } from 'mysql2/promise'
import { ClosedError } from '../../../core/errors.js'
import { Session } from './session.js'

/**
 * The sessions of one client: a desk, where free locks are taken and held, many at a time, and never waited for;
 * and a bounded number that wait in the server's queue, each for one lock, and hold what they waited for.
 * A session that waits holds nothing: so the server sees no deadlock where there is none.
 */
export class Sessions {
  readonly #connect: () => Promise<Connection>
  readonly #prepare: (session: Session) => Promise<void>
  readonly #limit: number
  readonly #onEnd: (session: Session) => void
  readonly #free: Session[] = []
  readonly #waiters = new Set<Session>()
  #opening = 0
  #desk: Promise<Session> | undefined
  #closed = false

  constructor(
    connect: () => Promise<Connection>,
    limit: number,
    prepare: (session: Session) => Promise<void>,
    onEnd: (session: Session) => void,
  ) {
    this.#connect = connect
    this.#prepare = prepare
    this.#limit = limit
    this.#onEnd = onEnd
  }

  /** The desk, opened anew when it has ended. */
  async desk(): Promise<Session> {
    if (this.#closed) throw new ClosedError('The MySQL backend was closed.')
    this.#desk ??= this.#open((session) => {
      this.#desk = undefined
      this.#onEnd(session)
    })
    try {
      const desk = await this.#desk
      if (!desk.over) return desk
    } catch (error) {
      this.#desk = undefined
      throw error
    }
    this.#desk = undefined
    return await this.desk()
  }

  /** A session to wait with; undefined when all are busy. */
  async take(): Promise<Session | undefined> {
    const free = this.#free.pop()
    if (free !== undefined) return free
    if (this.#closed || this.#waiters.size + this.#opening >= this.#limit) return undefined
    this.#opening += 1
    try {
      const session = await this.#open((ended) => {
        this.#waiters.delete(ended)
        const place = this.#free.indexOf(ended)
        if (place !== -1) this.#free.splice(place, 1)
        this.#onEnd(ended)
      })
      this.#waiters.add(session)
      return session
    } finally {
      this.#opening -= 1
    }
  }

  giveBack(session: Session): void {
    if (this.#waiters.has(session) && !session.over) this.#free.push(session)
  }

  /** Also after a close: an open that failed is followed by another. */
  open(): void {
    this.#closed = false
  }

  close(): void {
    this.#closed = true
    for (const session of [...this.#waiters]) session.end()
    this.#desk?.then(
      (desk) => desk.end(),
      () => undefined,
    )
  }

  async #open(onEnd: (session: Session) => void): Promise<Session> {
    const session = await Session.open(this.#connect, onEnd)
    try {
      await this.#prepare(session)
    } catch (error) {
      session.end()
      throw error
    }
    if (this.#closed) {
      session.end()
      throw new ClosedError('The MySQL backend was closed.')
    }
    return session
  }
}
