import type { Client } from 'pg'
import { connectClient, type Dial } from '../connections.js'
import { destroy } from '../destroy.js'
import { failure } from '../failure.js'
import { type Column, type Prepared, runColumn, type Value } from '../prepared.js'
import { unwatch, watch, watched } from '../watchdog.js'
import { KEEP_FOR } from './sql.js'

/** `idle_session_timeout` and `client_connection_check_interval` came with 14. */
const DEAD_MAN_SINCE = 140_000

/** One session of the server: it either waits for a lock or holds some, never both, so a heartbeat always gets through. */
export class Post {
  /** The ids of the tickets whose locks this session holds. */
  readonly holds: Set<string> = new Set<string>()
  readonly pid: number
  /** It tries locks and holds those that were free; it is never put into the server's queue. */
  readonly isDesk: boolean
  ended = false
  /** When it last had nothing to do. */
  idleSince: number = performance.now()
  readonly #client: Client
  readonly #deadMan: boolean
  #idleMs = 0
  #busy: Promise<void> | undefined

  private constructor(client: Client, pid: number, isDesk: boolean, deadMan: boolean, ended: (post: Post) => void) {
    this.#client = client
    this.pid = pid
    this.isDesk = isDesk
    this.#deadMan = deadMan
    client.once('end', () => {
      this.ended = true
      ended(this)
    })
  }

  static async open(dial: Dial, name: string, isDesk: boolean, ended: (post: Post) => void): Promise<Post> {
    const client = await connectClient(dial)
    try {
      const { rows } = await watched(
        client,
        client.query<{ pid: number; version: string }>(
          "SELECT pg_backend_pid() AS pid, current_setting('server_version_num') AS version",
        ),
      )
      const deadMan = Number(rows[0]?.version) >= DEAD_MAN_SINCE
      const settings = `${SETTINGS} ${deadMan ? DEAD_MAN_SETTINGS : ''} SET application_name = '${name}'`
      await watched(client, client.query(settings))
      return new Post(client, rows[0]?.pid ?? 0, isDesk, deadMan, ended)
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
  async run(statement: Prepared, values: readonly Value[], patient = false): Promise<Column> {
    while (this.#busy !== undefined) await this.#busy
    if (!patient) watch(this.#client)
    const answer = runColumn(this.#client, statement, values, true)
    this.#busy = answer.then(this.#free, this.#free)
    try {
      return await answer
    } catch (cause) {
      throw failure(statement.name, cause)
    }
  }

  /**
   * Lets the server end this session when nothing was heard from us for `ttlMs`: so the locks of a process that is
   * paused or cut off do come free. A heartbeat comes three times in that time.
   */
  async keepFor(ttlMs: number): Promise<void> {
    if (this.keepsFor(ttlMs)) return
    this.#idleMs = Math.ceil(ttlMs)
    await this.run(KEEP_FOR, [String(this.#idleMs)])
  }

  /** Whether the server would wait for that long already, or cannot be told. */
  keepsFor(ttlMs: number): boolean {
    return !this.#deadMan || ttlMs <= this.#idleMs
  }

  end(): void {
    this.ended = true
    void this.#client.end().catch(() => destroy(this.#client))
  }

  readonly #free = (): void => {
    unwatch(this.#client)
    this.#busy = undefined
  }
}

/** Waiting for a lock is what these sessions are for: no time-out of the role's may end it. */
const SETTINGS = `SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;
  SET default_transaction_isolation = 'read committed'; SET plan_cache_mode = force_generic_plan;
  SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
  SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';`

/** A session that waits notices that its client is gone. */
const DEAD_MAN_SETTINGS = "SET client_connection_check_interval = '1s'; SET idle_session_timeout = 0;"
