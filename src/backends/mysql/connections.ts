import { ClosedError } from '../../core/errors.js'
import { within } from './deadlines.js'
import type { Rows } from './rows.js'
import type { Lender, Lent } from './source.js'
import { isAnswer, isCrossed, isReadOnly, noAnswer, storeError } from './store-error.js'
import { send, unref } from './wire.js'

export interface RunOptions {
  readonly timeoutMs?: number
  /** The store's own error is thrown as it is. */
  readonly raw?: boolean
  /** What a packet that failed in the middle has to undo on its connection, besides its transaction. */
  readonly undo?: string
}

/** How our own connections are set up. Short lock waits: what is stuck is tried again, not waited for. */
const SETUP =
  "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION innodb_lock_wait_timeout = 1, sql_mode = 'NO_ENGINE_SUBSTITUTION', autocommit = 1, group_concat_max_len = 65536"

/** On a connection that belongs to the application, only the next transaction is touched. */
const PREFIX_OF_SHARED = 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED;'

/** A transaction that lost a race for row locks is sent again so often, and for so long. */
const MOST_TRIES = 8
const RETRY_FOR_MS = 2_500
const CALL_TIMEOUT_MS = 4_500

/**
 * A few connections that take one packet at a time each. A packet is a whole transaction, so a process
 * that is stopped between two packets holds no row lock.
 */
export class Connections {
  readonly #lender: Lender
  readonly #limit: number
  readonly #idle: Lent[] = []
  readonly #all = new Set<Lent>()
  readonly #queue: { resolve: (lent: Lent) => void; reject: (error: unknown) => void }[] = []
  #opening = 0
  #closed = false

  constructor(lender: Lender, limit: number) {
    this.#lender = lender
    this.#limit = limit
  }

  /** Sends one packet and gives its results. A transaction that lost a race for row locks is sent again. */
  async run(sql: string, doing: string, options: RunOptions = {}): Promise<Rows[]> {
    const until = performance.now() + RETRY_FOR_MS
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#once(sql, doing, options)
      } catch (error) {
        if (isCrossed(error) && tries < MOST_TRIES && performance.now() < until) {
          await pause(tries * 2 + Math.random() * 4)
          continue
        }
        throw options.raw === true ? error : storeError(error, doing)
      }
    }
  }

  /** Opens a connection ahead of time: when the server is full it is too late. */
  async warm(): Promise<void> {
    await this.run('DO 0', 'connecting')
  }

  /** Also after a close: an open that failed is followed by another. */
  open(): void {
    this.#closed = false
  }

  close(): void {
    this.#closed = true
    for (const waiting of this.#queue.splice(0)) waiting.reject(closedError())
    for (const lent of this.#all) lent.destroy()
    this.#all.clear()
    this.#idle.length = 0
  }

  async #once(sql: string, doing: string, options: RunOptions): Promise<Rows[]> {
    const { timeoutMs = CALL_TIMEOUT_MS, undo } = options
    const deadline = performance.now() + timeoutMs
    const lent = this.#idle.pop() ?? (await this.#takeWithin(timeoutMs, doing))
    const prefix = lent.own ? '' : PREFIX_OF_SHARED
    const left = Math.max(1, deadline - performance.now())
    try {
      const results = await within(send(lent.connection, prefix + sql), left, () => noAnswer(doing, timeoutMs))
      this.#put(lent)
      return lent.own ? results : results.slice(1)
    } catch (error) {
      await this.#afterError(lent, error, undo)
      throw error
    }
  }

  /** An error inside a packet leaves its transaction open: end it before anyone else has to wait for it. */
  async #afterError(lent: Lent, error: unknown, undo: string | undefined): Promise<void> {
    if (isAnswer(error) && !isReadOnly(error)) {
      try {
        const sql = undo === undefined ? 'ROLLBACK' : `ROLLBACK;${undo}`
        await within(send(lent.connection, sql), 1_000, () => noAnswer('rolling back', 1_000))
        this.#put(lent)
        return
      } catch {
        // The connection is broken as well; closing it ends the transaction.
      }
    }
    this.#drop(lent)
  }

  async #takeWithin(ms: number, doing: string): Promise<Lent> {
    const taking = this.#take()
    let late = false
    try {
      return await within(taking, ms, () => {
        late = true
        return noAnswer(`${doing} (no connection was free)`, ms)
      })
    } finally {
      // Nobody is there any more to use it when it comes.
      if (late) taking.then((lent) => this.#put(lent), ignore)
    }
  }

  async #take(): Promise<Lent> {
    if (this.#closed) throw closedError()
    const idle = this.#idle.pop()
    if (idle !== undefined) return idle
    if (this.#all.size + this.#opening < this.#limit) return await this.#open()
    return await new Promise((resolve, reject) => this.#queue.push({ resolve, reject }))
  }

  async #open(): Promise<Lent> {
    this.#opening += 1
    try {
      const lent = await this.#lender.lend()
      if (this.#closed) {
        if (lent.own) lent.destroy()
        else lent.giveBack()
        throw closedError()
      }
      if (lent.own) await this.#setUp(lent)
      this.#all.add(lent)
      return lent
    } catch (error) {
      // Who waits for a connection waits for this one's fate: better an answer than a queue that nobody serves.
      if (this.#all.size === 0) for (const waiting of this.#queue.splice(0)) waiting.reject(error)
      throw error
    } finally {
      this.#opening -= 1
    }
  }

  async #setUp(lent: Lent): Promise<void> {
    unref(lent.connection)
    lent.connection.on('error', () => this.#drop(lent))
    try {
      // A place whose set-up is never answered would be lost for good.
      await within(send(lent.connection, SETUP), CALL_TIMEOUT_MS, () => noAnswer('connecting', CALL_TIMEOUT_MS))
    } catch (error) {
      lent.destroy()
      throw error
    }
  }

  #put(lent: Lent): void {
    if (!lent.own || this.#closed) {
      this.#all.delete(lent)
      if (lent.own) lent.destroy()
      else lent.giveBack()
      this.#serve()
      return
    }
    if (!this.#all.has(lent)) return
    const waiting = this.#queue.shift()
    if (waiting === undefined) this.#idle.push(lent)
    else waiting.resolve(lent)
  }

  #drop(lent: Lent): void {
    this.#all.delete(lent)
    const place = this.#idle.indexOf(lent)
    if (place !== -1) this.#idle.splice(place, 1)
    lent.destroy()
    this.#serve()
  }

  /** A place became free: the first in the queue opens a connection of its own. */
  #serve(): void {
    if (this.#closed || this.#all.size + this.#opening >= this.#limit) return
    const waiting = this.#queue.shift()
    if (waiting !== undefined) this.#open().then(waiting.resolve, waiting.reject)
  }
}

/** For a failure that somebody else has been told of already. */
function ignore(): void {}

function closedError(): ClosedError {
  return new ClosedError('The MySQL backend was closed.')
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}
