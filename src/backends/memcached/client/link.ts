import type { BackendError } from '../../../core/errors.js'
import { type Address, Connection, type ConnectionSettings } from './connection.js'

/** After a failed attempt to connect, callers are told so at once for this long, instead of each trying again. */
const REST_MS = 200

/** The way to one server: makes its connection when it is first needed, and a new one after it broke. */
export class Link {
  readonly address: Address
  readonly #settings: ConnectionSettings
  #connection: Connection | undefined
  #opening: Promise<Connection> | undefined
  #failed: { readonly error: BackendError; readonly at: number } | undefined
  #closed = false

  constructor(address: Address, settings: ConnectionSettings) {
    this.address = address
    this.#settings = settings
  }

  /** The connection that is open now, if one is. */
  get current(): Connection | undefined {
    return this.#connection?.isOpen === true ? this.#connection : undefined
  }

  async connection(): Promise<Connection> {
    const { current } = this
    if (current !== undefined) return current
    if (this.#failed !== undefined && performance.now() - this.#failed.at < REST_MS) throw this.#failed.error
    this.#opening ??= this.#open()
    return await this.#opening
  }

  /** A connection of its own for a reply that is long; the caller closes it. */
  async another(): Promise<Connection> {
    return await Connection.open(this.address, this.#settings)
  }

  /** Lets go of the connection that there is, and of what failed: whoever asks next begins anew. */
  drop(): void {
    this.#connection?.close()
    this.#connection = undefined
    this.#failed = undefined
  }

  close(): void {
    this.#closed = true
    this.drop()
  }

  async #open(): Promise<Connection> {
    try {
      const connection = await Connection.open(this.address, this.#settings)
      if (this.#closed) connection.close()
      this.#connection = connection
      this.#failed = undefined
      return connection
    } catch (error) {
      this.#failed = { error: error as BackendError, at: performance.now() }
      throw error
    } finally {
      this.#opening = undefined
    }
  }
}
