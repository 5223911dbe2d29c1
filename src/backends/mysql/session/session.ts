import type { Connection } from 'mysql2/promise'
import { BackendError } from '../../../core/errors.js'
import { expect, type Expected, settle, within } from '../deadlines.js'
import { number, type Rows } from '../rows.js'
import { isAnswer, noAnswer, storeError } from '../store-error.js'
import { send, sendThen, unref } from '../wire.js'
import type { SessionTicket } from './ticket.js'

const CALL_TIMEOUT_MS = 4_500
/** For a session that holds nothing. */
const IDLE_S = 28_800

interface Call extends Expected {
  /** The session has ended before the answer. */
  giveUp(): void
}

/**
 * One connection of ours, and the locks that the server keeps for it. The server drops it when it has heard nothing
 * for a little longer than the longest ttl of what it holds, so a process that is stopped or cut off does not hold for ever.
 */
export class Session {
  readonly id: number
  readonly holds: Map<string, SessionTicket> = new Map()
  readonly #connection: Connection
  readonly #ended: (session: Session) => void
  #keepS = 0
  #heardAt = performance.now()
  #beat: NodeJS.Timeout | undefined
  #over = false
  /** The calls that have no answer yet: the client library leaves them open when a connection is destroyed. */
  readonly #underWay = new Set<Call>()

  private constructor(connection: Connection, id: number, ended: (session: Session) => void) {
    this.#connection = connection
    this.id = id
    this.#ended = ended
    connection.on('error', () => this.end())
    connection.on('end', () => this.end())
  }

  static async open(connect: () => Promise<Connection>, ended: (session: Session) => void): Promise<Session> {
    let connection: Connection
    try {
      connection = await connect()
    } catch (error) {
      throw storeError(error, 'connecting')
    }
    try {
      unref(connection)
      const sql = "SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION', autocommit = 1; SELECT CONNECTION_ID()"
      const [, rows] = await within(send(connection, sql), CALL_TIMEOUT_MS, () =>
        noAnswer('connecting', CALL_TIMEOUT_MS),
      )
      const session = new Session(connection, number(rows?.[0]?.[0]), ended)
      await session.keepFor(0)
      return session
    } catch (error) {
      connection.destroy()
      throw storeError(error, 'connecting')
    }
  }

  get over(): boolean {
    return this.#over
  }

  /** Throws when it has ended: what it got, it has no more, also when that is heard of only now. */
  assertAlive(doing: string): void {
    if (this.#over) throw endedError(doing)
  }

  /** Sends one packet. A session that does not answer is at its end: what it held is lost. */
  run(sql: string, doing: string, timeoutMs: number = CALL_TIMEOUT_MS): Promise<Rows[]> {
    return new Promise((resolve, reject) => {
      if (this.#over) return reject(endedError(doing))
      const call: Call = {
        until: performance.now() + timeoutMs,
        late: () => {
          reject(noAnswer(doing, timeoutMs))
          this.end()
        },
        giveUp: () => reject(endedError(doing)),
      }
      this.#underWay.add(call)
      expect(call)
      sendThen(this.#connection, sql, (error, results) => {
        this.#underWay.delete(call)
        settle(call)
        if (error === null) {
          this.#heardAt = performance.now()
          resolve(results)
        } else {
          reject(storeError(error, doing))
          if (!isAnswer(error)) this.end()
        }
      })
    })
  }

  /** The statement that makes the server wait long enough for word from us, and not much longer; none when it does already. */
  keepSql(ttlMs: number): string | undefined {
    let longest = ttlMs
    for (const ticket of this.holds.values()) longest = Math.max(longest, ticket.ttlMs)
    const seconds = longest === 0 ? IDLE_S : Math.min(IDLE_S, Math.ceil(longest / 1_000) + 1)
    if (seconds === this.#keepS) return undefined
    this.#keepS = seconds
    this.#schedule()
    return `SET SESSION wait_timeout = ${seconds}`
  }

  async keepFor(ttlMs: number): Promise<void> {
    const sql = this.keepSql(ttlMs)
    if (sql !== undefined) await this.run(sql, 'setting up a session')
  }

  end(): void {
    if (this.#over) return
    this.#over = true
    clearInterval(this.#beat)
    this.#connection.destroy()
    for (const call of this.#underWay) {
      settle(call)
      call.giveUp()
    }
    this.#underWay.clear()
    this.#ended(this)
  }

  /** Says that we live, where nothing else did. The renewals do so too; this is for what nobody renews. */
  #schedule(): void {
    clearInterval(this.#beat)
    const everyMs = (this.#keepS * 1_000) / 4
    this.#beat = setInterval(() => {
      if (this.#underWay.size > 0 || performance.now() - this.#heardAt < everyMs) return
      // A failure ends the session, which says all there is to say.
      this.run('DO 0', 'a heartbeat').catch(() => this.end())
    }, everyMs)
    this.#beat.unref()
  }
}

function endedError(doing: string): BackendError {
  return new BackendError(`MySQL failed while ${doing}: the session has ended.`, { retryable: true })
}
