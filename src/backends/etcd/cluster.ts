import { Connection, type Endpoint, type MessageStream } from './connection.js'
import { isMemberTrouble, isStaleToken, storeError } from './failure.js'
import { RpcError, UNAVAILABLE } from './grpc.js'
import { authenticateRequest, readToken } from './messages.js'
import type { Reader } from './wire.js'

export interface ClusterOptions {
  readonly endpoints: readonly Endpoint[]
  readonly user?: string
  readonly password?: string
  /** How long one call may take. */
  readonly callTimeoutMs: number
}

/** So long a member may take to accept a connection before the next one is tried. */
const CONNECT_TIMEOUT_MS = 2_000

/** While a leader is being elected every member says it has none: do not run in circles. */
const LEAVE_MEMBER_EVERY_MS = 400

/** The whole cluster: one connection at a time, to any member that works, and the token for it. */
export class Cluster {
  readonly #options: ClusterOptions
  readonly #broken: () => void
  #connection: Connection | undefined
  #connecting: Promise<Connection> | undefined
  #token: string | undefined
  #authenticating: Promise<void> | undefined
  /** Which member is tried first. Clients begin at random, so that they spread over the members. */
  #next: number
  #leftAt = Number.NEGATIVE_INFINITY
  #closed = false

  /** `broken` is called when a connection that was in use is over. */
  constructor(options: ClusterOptions, broken: () => void) {
    this.#options = options
    this.#broken = broken
    this.#next = Math.floor(Math.random() * options.endpoints.length)
  }

  /** One call, made once. (A call that was turned away for its old token was not carried out, and is sent again.) */
  call<T>(
    path: string,
    message: Buffer,
    read: (reader: Reader) => T,
    timeoutMs: number = this.#options.callTimeoutMs,
  ): Promise<T> {
    const attempt = (connection: Connection): Promise<T> =>
      connection.call(path, message, read, { timeoutMs, token: this.#token })
    const inUse = this.#inUse()
    // Nearly always; and then without a promise more than the call's own.
    if (inUse !== undefined) return attempt(inUse).catch((error: unknown) => this.#again(inUse, error, attempt))
    return this.#usable().then((connection) =>
      attempt(connection).catch((error: unknown) => this.#again(connection, error, attempt)),
    )
  }

  async #again<T>(connection: Connection, error: unknown, attempt: (on: Connection) => Promise<T>): Promise<T> {
    if (isStaleToken(error) && this.#options.user !== undefined) {
      await this.#authenticate(connection)
      return await attempt(connection)
    }
    if (isMemberTrouble(error)) this.#leaveMember(connection)
    throw error
  }

  /** A stream to the member that is in use; ends with the connection. */
  async stream(path: string, message: (reader: Reader) => void, ended: (error: Error) => void): Promise<MessageStream> {
    const connection = await this.#usable()
    return connection.stream(path, this.#token, message, ended)
  }

  /** Forgets the token: a stream that was opened with it was turned away. */
  forgetToken(): void {
    if (this.#options.user === undefined) return
    this.#token = undefined
  }

  /** Lets go of the connection; the next call makes another. */
  disconnect(): void {
    this.#connection?.close(new Error('the client could not be opened'))
  }

  close(): void {
    this.#closed = true
    this.#connection?.close(new Error('the client was closed'))
  }

  /** The connection, where it is open and we are logged in. */
  #inUse(): Connection | undefined {
    const isOpen = !this.#closed && this.#connection?.usable === true
    return isOpen && (this.#options.user === undefined || this.#token !== undefined) ? this.#connection : undefined
  }

  async #usable(): Promise<Connection> {
    if (this.#closed) throw new RpcError(UNAVAILABLE, 'the client is closed')
    const connection =
      this.#connection?.usable === true
        ? this.#connection
        : await (this.#connecting ??= this.#connect().finally(() => {
            this.#connecting = undefined
          }))
    if (this.#options.user !== undefined && this.#token === undefined) await this.#authenticate(connection)
    return connection
  }

  /** Connects to the first member that takes us, beginning after the one that failed last. */
  async #connect(): Promise<Connection> {
    const { endpoints } = this.#options
    let failure: unknown
    for (let tried = 0; tried < endpoints.length; tried += 1) {
      const index = (this.#next + tried) % endpoints.length
      try {
        const connection = await Connection.open(endpoints[index]!, CONNECT_TIMEOUT_MS)
        this.#next = index
        this.#adopt(connection)
        return connection
      } catch (error) {
        failure = error
      }
    }
    const many = endpoints.length === 1 ? 'the server' : `any of the ${endpoints.length} members`
    throw storeError(`connecting to ${many}`, failure)
  }

  #adopt(connection: Connection): void {
    if (this.#closed) {
      connection.close()
      throw new RpcError(UNAVAILABLE, 'the client is closed')
    }
    this.#connection = connection
    void connection.closed.then(() => {
      if (this.#connection !== connection) return
      this.#connection = undefined
      this.#next = (this.#next + 1) % this.#options.endpoints.length
      if (!this.#closed) this.#broken()
    })
  }

  #leaveMember(connection: Connection): void {
    const now = performance.now()
    if (this.#options.endpoints.length === 1 || this.#connection !== connection) return
    if (now - this.#leftAt < LEAVE_MEMBER_EVERY_MS) return
    this.#leftAt = now
    connection.close(new Error('the member cannot reach a majority of the cluster'))
  }

  /** Fetches a token, once for all calls that wait for one. */
  async #authenticate(connection: Connection): Promise<void> {
    this.#authenticating ??= this.#fetchToken(connection).finally(() => {
      this.#authenticating = undefined
    })
    await this.#authenticating
  }

  async #fetchToken(connection: Connection): Promise<void> {
    const { user = '', password = '', callTimeoutMs } = this.#options
    this.#token = undefined
    try {
      const message = authenticateRequest(user, password)
      this.#token = await connection.call('/etcdserverpb.Auth/Authenticate', message, readToken, {
        timeoutMs: callTimeoutMs,
      })
    } catch (error) {
      // A cluster without users takes anybody.
      if (!(error instanceof RpcError) || !error.message.includes('authentication is not enabled')) {
        throw storeError('logging in', error)
      }
      this.#token = ''
    }
  }
}
