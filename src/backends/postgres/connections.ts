import type { Client, ClientConfig, Pool, QueryResult } from 'pg'
import { BackendError } from '../../core/errors.js'
import { destroy } from './destroy.js'
import { failure, spendsConnection } from './failure.js'
import { type Column, type Prepared, runColumn, type Value } from './prepared.js'
import { unwatch, watch, watched } from './watchdog.js'

/** Makes a connection of our own. */
export type Dial = () => Promise<Client>

/** What of a `pg` Pool is used: the way it makes a connection. None of its own connections is ever taken. */
export interface PoolLike {
  readonly options: Pool['options']
}

/** How long an unused connection is kept. */
const IDLE_MS = 30_000

const CONNECT_MS = 4_000

export interface Statement {
  readonly text: string
  readonly values: readonly Value[]
}

type Result = QueryResult<Record<string, string | null>>

/** Makes connections as the user's pool would, but of our own: work that fills the pool cannot starve a renewal. */
export function dialLike(pool: PoolLike): Dial {
  // pg-pool keeps the class it was made with, so that another version of pg stays what it is.
  const { Client: ClientClass } = pool as unknown as { Client: new (config: ClientConfig) => Client }
  return async () => {
    const client = new ClientClass({
      ...pool.options,
      // pg-pool hides the password from listings: a spread alone would miss it.
      ...(pool.options.password === undefined ? {} : { password: pool.options.password }),
      keepAlive: true,
      connectionTimeoutMillis: pool.options.connectionTimeoutMillis ?? CONNECT_MS,
    })
    // A connection that breaks before anybody uses it must not end the process; its next use says so.
    client.on('error', () => undefined)
    await client.connect()
    return client
  }
}

/** Connects, and does not keep the process alive for it: core does while a call is pending. */
export async function connectClient(dial: Dial): Promise<Client> {
  let client: Client
  try {
    client = await dial()
  } catch (cause) {
    throw failure('connecting', cause)
  }
  // The function that made it may be the user's: one that breaks while it is idle must not end the process.
  client.on('error', () => undefined)
  const socket = client as unknown as { unref(): void }
  socket.unref()
  return client
}

/** A few connections of our own, opened when needed, each used by one call at a time. */
export class Connections {
  readonly #dial: Dial
  readonly #most: number
  readonly #idle: { client: Client; since: number }[] = []
  readonly #queue: { resolve(client: Client | undefined): void; reject(error: Error): void }[] = []
  readonly #all = new Set<Client>()
  #opening = 0
  #closed = false
  #sweep: NodeJS.Timeout | undefined

  /** Run once on every new connection: session settings, where the session is ours. */
  greeting: string | undefined

  constructor(dial: Dial, most: number) {
    this.#dial = dial
    this.#most = most
  }

  /** Runs one statement; `doing` names it in an error. */
  run(doing: string, { text, values }: Statement): Promise<Result> {
    return this.#with(doing, (client) => client.query({ text, values: values as Value[] }))
  }

  /** Runs a statement that answers one column of text, prepared by name where the connection is known to be one session. */
  column(doing: string, statement: Prepared, values: readonly Value[], named: boolean): Promise<Column> {
    return this.#with(doing, (client) => runColumn(client, statement, values, named))
  }

  async #with<Answer>(doing: string, use: (client: Client) => Promise<Answer>): Promise<Answer> {
    const client = this.#idle.pop()?.client ?? (await this.#take(doing))
    let spent = false
    watch(client)
    try {
      return await use(client)
    } catch (cause) {
      spent = spendsConnection(cause)
      throw failure(doing, cause)
    } finally {
      unwatch(client)
      this.#give(client, spent)
    }
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#sweep)
    for (const client of this.#all) void client.end().catch(() => destroy(client))
    this.#all.clear()
    this.#idle.length = 0
    for (const waiter of this.#queue.splice(0)) waiter.reject(closed())
  }

  async #take(doing: string): Promise<Client> {
    if (this.#closed) throw closed()
    const idle = this.#idle.pop()
    if (idle !== undefined) return idle.client
    if (this.#all.size + this.#opening < this.#most) return await this.#open(doing)
    const given = await new Promise<Client | undefined>((resolve, reject) => this.#queue.push({ resolve, reject }))
    // Undefined: a connection broke, and this one may open another in its place.
    return given ?? (await this.#take(doing))
  }

  async #open(doing: string): Promise<Client> {
    this.#opening += 1
    let client: Client | undefined
    try {
      client = await connectClient(this.#dial)
      if (this.greeting !== undefined) await watched(client, client.query(this.greeting))
    } catch (cause) {
      if (client !== undefined) destroy(client)
      this.#queue.shift()?.resolve(undefined)
      throw failure(`${doing} (connecting)`, cause instanceof BackendError ? cause.cause : cause)
    } finally {
      this.#opening -= 1
    }
    if (this.#closed) {
      destroy(client)
      throw closed()
    }
    const opened = client
    this.#all.add(opened)
    const drop = (): void => this.#drop(opened)
    opened.on('error', drop)
    opened.on('end', drop)
    this.#sweep ??= setInterval(() => this.#endIdle(), IDLE_MS).unref()
    return opened
  }

  #give(client: Client, spent: boolean): void {
    if (spent || !this.#all.has(client)) {
      this.#drop(client)
      destroy(client)
      return
    }
    const waiter = this.#queue.shift()
    if (waiter === undefined) this.#idle.push({ client, since: performance.now() })
    else waiter.resolve(client)
  }

  #drop(client: Client): void {
    const at = this.#idle.findIndex((idle) => idle.client === client)
    if (at !== -1) this.#idle.splice(at, 1)
    if (this.#all.delete(client)) this.#queue.shift()?.resolve(undefined)
  }

  #endIdle(): void {
    const before = performance.now() - IDLE_MS
    // The last one stays: a client that locks once a minute should not connect once a minute.
    while (this.#all.size > 1 && this.#idle[0] !== undefined && this.#idle[0].since < before) {
      const { client } = this.#idle[0]
      this.#drop(client)
      void client.end().catch(() => destroy(client))
    }
  }
}

function closed(): BackendError {
  return new BackendError('PostgreSQL: the client is closed.', { retryable: false })
}

/** Makes a call once more, on another connection, when the first broke: for what may be done twice. */
export async function twice<Answer>(call: () => Promise<Answer>): Promise<Answer> {
  try {
    return await call()
  } catch (error) {
    if (!(error instanceof BackendError) || !spendsConnection(error.cause)) throw error
    return await call()
  }
}
