import type { Client } from 'pg'
import { connectClient, type Dial, destroy } from '../connections.js'
import { failure } from '../failure.js'

/** How long a call may take that waits for nothing. */
const CALL_MS = 5_000

/** `idle_session_timeout` and `client_connection_check_interval` came with 14. */
const DEAD_MAN_SINCE = 140_000

export type Row = Record<string, string | null>

/** One session of the server: it either waits for a lock or holds some, never both, so a heartbeat always gets through. */
export class Post {
  /** The ids of the tickets whose locks this session holds. */
  readonly holds: Set<string> = new Set<string>()
  readonly pid: number
  ended = false
  /** When it last had nothing to do. */
  idleSince: number = performance.now()
  readonly #client: Client
  readonly #deadMan: boolean
  #idleMs = 0
  #tail: Promise<unknown> = Promise.resolve()

  private constructor(client: Client, pid: number, deadMan: boolean, ended: (post: Post) => void) {
    this.#client = client
    this.pid = pid
    this.#deadMan = deadMan
    client.once('end', () => {
      this.ended = true
      ended(this)
    })
  }

  static async open(dial: Dial, name: string, ended: (post: Post) => void): Promise<Post> {
    const client = await connectClient(dial)
    try {
      const { rows } = await client.query<{ pid: number; version: string }>(
        "SELECT pg_backend_pid() AS pid, current_setting('server_version_num') AS version",
      )
      const deadMan = Number(rows[0]?.version) >= DEAD_MAN_SINCE
      await client.query(`${SETTINGS} ${deadMan ? DEAD_MAN_SETTINGS : ''} SET application_name = '${name}'`)
      return new Post(client, rows[0]?.pid ?? 0, deadMan, ended)
    } catch (cause) {
      destroy(client)
      throw failure('opening a session', cause)
    }
  }

  /** The client itself, for the one question whether it is a session at all. */
  get client(): Client {
    return this.#client
  }

  /** One statement at a time, in the order asked for. `patient` ones wait for a lock, however long that takes. */
  async run(
    doing: string,
    text: string,
    values: readonly (string | number | boolean | null)[],
    patient = false,
  ): Promise<Row[]> {
    const before = this.#tail
    const mine = before.then(async () => await this.#query(doing, text, values, patient))
    this.#tail = mine.catch(() => undefined)
    return await mine
  }

  /**
   * Lets the server end this session when nothing was heard from us for `ttlMs`: so the locks of a process that is
   * paused or cut off do come free. A heartbeat comes three times in that time.
   */
  async keepFor(ttlMs: number): Promise<void> {
    if (!this.#deadMan || ttlMs <= this.#idleMs) return
    this.#idleMs = Math.ceil(ttlMs)
    await this.run('a setting', "SELECT set_config('idle_session_timeout', $1, false)", [String(this.#idleMs)])
  }

  end(): void {
    this.ended = true
    void this.#client.end().catch(() => destroy(this.#client))
  }

  async #query(
    doing: string,
    text: string,
    values: readonly (string | number | boolean | null)[],
    patient: boolean,
  ): Promise<Row[]> {
    let timer: NodeJS.Timeout | undefined
    try {
      const query = this.#client.query<Row>({ name: text.slice(0, 60), text, values: [...values] })
      if (patient) return (await query).rows
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => {
          // The session is of no use any more: ending it frees what it holds, on the server too.
          destroy(this.#client)
          reject(new Error(`no answer within ${CALL_MS / 1_000} s`))
        }, CALL_MS).unref()
      })
      return (await Promise.race([query, late])).rows
    } catch (cause) {
      throw failure(doing, cause)
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Waiting for a lock is what these sessions are for: no time-out of the role's may end it. */
const SETTINGS = `SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;
  SET default_transaction_isolation = 'read committed';
  SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
  SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';`

/** A session that waits notices that its client is gone. */
const DEAD_MAN_SETTINGS = "SET client_connection_check_interval = '1s'; SET idle_session_timeout = 0;"
