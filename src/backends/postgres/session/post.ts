import type { Client } from 'pg'
import { connectClient, type Dial } from '../connections.js'
import { destroy } from '../destroy.js'
import { failure } from '../failure.js'
import { type Column, type Prepared, runColumn, type Value } from '../prepared.js'
import { isWatched, unwatch, watch, watched } from '../watchdog.js'
import { KEEP_FOR } from './sql.js'

/** `idle_session_timeout` and `client_connection_check_interval` came with 14. */
const DEAD_MAN_SINCE = 140_000

/** The longest that the server can be told, 24 days. */
const MOST_IDLE_MS = 2 ** 31 - 1

/** Who needs the session to last for its ttl. */
interface Lasting {
  readonly id: string
  readonly ttlMs: number
}

/** One session of the server: it either waits for a lock or holds some, never both, so a heartbeat always gets through. */
export class Post {
  /** The tickets whose locks this session holds, by id. */
  readonly holds: Map<string, Lasting> = new Map<string, Lasting>()
  /** What is being tried on it, and may hold in a moment. */
  readonly expects: Set<Lasting> = new Set<Lasting>()
  readonly pid: number
  /** It tries locks and holds those that were free; it is never put into the server's queue. */
  readonly isDesk: boolean
  ended = false
  /** When it last had nothing to do. */
  idleSince: number = performance.now()
  readonly #client: Client
  readonly #deadMan: boolean
  /** What the server was told last; 0: it waits for ever, or nobody knows what it was told. */
  #idleMs = 0
  /** The one for whom it was told so. */
  #longest: Lasting | undefined
  #settling = false
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
   * Whether a patient statement should be over by now. One that is and has no answer in time was cut off, and is
   * broken here: nothing else would end its wait.
   */
  expectAnswer(soon: boolean): void {
    if (this.#busy === undefined || soon === isWatched(this.#client)) return
    if (soon) watch(this.#client)
    else unwatch(this.#client)
  }

  /**
   * Lets the server end this session when nothing was heard from us for the longest ttl of what it holds, and no
   * later: so the locks of a process that is paused or cut off do come free. A heartbeat comes three times in that time.
   */
  async keep(): Promise<void> {
    if (!this.#deadMan) return
    let longest: Lasting | undefined
    for (const one of this.holds.values()) if (longest === undefined || one.ttlMs > longest.ttlMs) longest = one
    for (const one of this.expects) if (longest === undefined || one.ttlMs > longest.ttlMs) longest = one
    if (longest === undefined) return
    this.#longest = longest
    const idleMs = idleMsFor(longest)
    if (idleMs === this.#idleMs) return
    // Noted when it is sent, not when it is answered: whatever is asked next comes after it.
    this.#idleMs = idleMs
    try {
      await this.run(KEEP_FOR, [String(idleMs)])
    } catch (error) {
      this.#idleMs = 0
      throw error
    }
  }

  /** Whether the server waits for long enough, as far as this one is concerned. */
  keepsFor(one: Lasting): boolean {
    return !this.#deadMan || idleMsFor(one) <= this.#idleMs
  }

  /** What it holds has changed: once all of that is noted, the server is told, if it makes a difference. */
  settle(one: Lasting): void {
    if (this.#settling || !this.#deadMan) return
    const idleMs = idleMsFor(one)
    if (idleMs === this.#idleMs || (idleMs < this.#idleMs && this.#stillHasLongest)) return
    this.#settling = true
    queueMicrotask(() => {
      this.#settling = false
      // A failure is met again by the next heartbeat.
      this.keep().catch(() => undefined)
    })
  }

  /** Then nothing shorter matters: spares a look at all it holds. */
  get #stillHasLongest(): boolean {
    const longest = this.#longest
    if (longest === undefined || idleMsFor(longest) !== this.#idleMs) return false
    return this.expects.has(longest) || this.holds.get(longest.id) === longest
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

function idleMsFor({ ttlMs }: Lasting): number {
  return Math.min(Math.ceil(ttlMs), MOST_IDLE_MS)
}

/** Waiting for a lock is what these sessions are for: no time-out of the role's may end it. */
const SETTINGS = `SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;
  SET default_transaction_isolation = 'read committed'; SET plan_cache_mode = force_generic_plan;
  SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
  SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';`

/** A session that waits notices that its client is gone. */
const DEAD_MAN_SETTINGS = "SET client_connection_check_interval = '1s'; SET idle_session_timeout = 0;"
