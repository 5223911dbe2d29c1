import type { ConnectionOptions } from 'node:tls'
import { Belief } from './belief.js'
import { Connection, type Host, HUNG_UP } from './connection.js'
import { Dials } from './dials.js'
import { CODE, ZooKeeperError } from './errors.js'
import type { Reader } from './jute.js'
import { encode, readConnect, readEvent, XID } from './protocol.js'
import { type Done, NOTHING, Unanswered } from './unanswered.js'
import { Watches } from './watches.js'

export interface SessionOptions {
  readonly hosts: readonly Host[]
  /** Asked for; the server may give more or less. */
  readonly timeoutMs: number
  readonly tickMs: number
  readonly tls?: ConnectionOptions
  readonly auth?: { readonly user: string; readonly password: string }
}

export interface SessionEvents {
  /** A server took the session up. `fresh`: it is a new session. */
  connected(fresh: boolean): void
  /** The connection broke; the session may live on. Every unanswered request has failed with ConnectionLoss. */
  disconnected(): void
  /** The servers ended the session, and with it its ephemeral nodes and watches. A new one is made. */
  expired(): void
}

type State = 'idle' | 'connecting' | 'connected' | 'closed'

const NO_PASSWORD = Buffer.alloc(16)

/**
 * A ZooKeeper session: it outlives its connections. Requests are sent as they come and answered in that
 * order; after a break the session is taken up at another server, with its watches, or made anew.
 */
export class Session {
  readonly watches: Watches = new Watches()
  readonly #options: SessionOptions
  readonly #events: SessionEvents
  readonly #belief: Belief
  readonly #dials: Dials
  readonly #unanswered = new Unanswered()
  #state: State = 'idle'
  #connection: Connection | undefined
  #connectSentAt = 0
  #heardAt = 0
  #beatAt = 0
  #lastZxid = 0n
  #id = 0n
  #password: Uint8Array = NO_PASSWORD
  #timeoutMs: number
  #timer: NodeJS.Timeout | undefined
  #closing = false
  #lastError: Error | undefined

  constructor(options: SessionOptions, events: SessionEvents) {
    this.#options = options
    this.#events = events
    this.#timeoutMs = options.timeoutMs
    this.#belief = new Belief(options.tickMs)
    this.#dials = new Dials(options.hosts)
  }

  get id(): bigint {
    return this.#id
  }

  get state(): State {
    return this.#state
  }

  /** As the servers gave it. */
  get timeoutMs(): number {
    return this.#timeoutMs
  }

  /** Until when the session surely lives, on the clock of `performance.now()`. */
  get provenUntil(): number {
    return this.#belief.until
  }

  /** Why the last connection ended. */
  get lastError(): Error | undefined {
    return this.#lastError
  }

  /** How many dials in a row did not lead to a session. */
  get failedDials(): number {
    return this.#state === 'connected' ? 0 : this.#dials.count
  }

  get hostCount(): number {
    return this.#dials.hostCount
  }

  /** Begins to connect; after `close`, with a new session. */
  start(): void {
    if (this.#state !== 'idle' && this.#state !== 'closed') return
    this.#closing = false
    this.#id = 0n
    this.#password = NO_PASSWORD
    this.#dials.reset()
    this.#lastError = undefined
    this.#dial()
  }

  /** Sends a request; `done` is called exactly once, in the order of the requests. `led`: the leader takes part. */
  request(what: string, led: boolean, packet: (xid: number) => Buffer, done: Done): void {
    if (this.#state !== 'connected') {
      const error = new ZooKeeperError(CODE.connectionLoss, `${what}: not connected`, {
        cause: this.#lastError,
        sent: false,
      })
      // Never before the caller has finished its own turn: it may not have noted the request yet.
      queueMicrotask(() => done(error, NOTHING, 0n))
      return
    }
    const xid = this.#unanswered.add(what, led, this.#belief.sending(performance.now()), done)
    this.#connection!.send(packet(xid))
  }

  /** Ends the session on the servers, when they can be reached, and the connection. */
  async close(): Promise<void> {
    if (this.#closing) return
    this.#closing = true
    if (this.#state === 'connected') {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(1_000, this.#timeoutMs))
        this.request('close', true, encode.closeSession, () => {
          clearTimeout(timer)
          resolve()
        })
      })
    }
    this.#state = 'closed'
    clearTimeout(this.#timer)
    this.#connection?.destroy(new Error('closed'))
  }

  #dial(): void {
    this.#state = 'connecting'
    const host = this.#dials.next()
    const dialMs = Math.max(250, Math.min(3_000, this.#timeoutMs / 3))
    let asked = false
    let handshaken = false
    const connection = new Connection(host, this.#options.tls, dialMs, {
      ready: () => {
        asked = true
        this.#connectSentAt = performance.now()
        connection.send(encode.connect(this.#lastZxid, this.#options.timeoutMs, this.#id, this.#password))
        const { auth } = this.#options
        if (auth !== undefined) connection.send(encode.auth('digest', Buffer.from(`${auth.user}:${auth.password}`)))
        // A server that lost its leader accepts connections and says nothing.
        this.#timer = setTimeout(() => connection.destroy(new Error(`no session within ${dialMs} ms`)), dialMs)
        this.#timer.unref()
      },
      packet: (reader) => {
        this.#heardAt = performance.now()
        if (handshaken) return this.#read(reader)
        handshaken = true
        clearTimeout(this.#timer)
        this.#handshake(connection, reader)
      },
      closed: (error) => this.#closed(asked && !handshaken ? turnedAway(error) : error, host),
    })
    this.#connection = connection
  }

  #handshake(connection: Connection, reader: Reader): void {
    const reply = readConnect(reader)
    if (reply.readOnly) throw new Error('the server is read-only')
    if (reply.timeoutMs <= 0) {
      this.#forget()
      connection.destroy(new Error('the session has expired'))
      return
    }
    const fresh = reply.session !== this.#id
    this.#id = reply.session
    this.#password = reply.password
    this.#timeoutMs = reply.timeoutMs
    this.#state = 'connected'
    this.#dials.succeeded()
    this.#belief.attached(this.#connectSentAt, performance.now(), reply.timeoutMs, fresh)
    for (const { data, exist, child } of this.watches.portions()) {
      connection.send(encode.setWatches(this.#lastZxid, data, exist, child))
    }
    this.#beatAt = performance.now()
    this.#timer = setInterval(() => this.#beat(connection), Math.max(20, reply.timeoutMs / 10))
    this.#timer.unref()
    this.#events.connected(fresh)
  }

  /** Keeps the session alive by an exchange with the leader, and gives up a server that does not answer. */
  #beat(connection: Connection): void {
    const now = performance.now()
    // After a stall of this very process the answers lie in the socket unread, or the requests unsent.
    if (now - this.#beatAt > this.#timeoutMs / 5) this.#heardAt = now
    this.#beatAt = now
    const { oldest } = this.#unanswered
    // Silence counts, not the age of a request: a long pipeline is answered one by one.
    const silentMs = oldest === undefined ? 0 : now - Math.max(oldest.mark.sentAt, this.#heardAt)
    if (silentMs > this.#timeoutMs / 3) connection.destroy(new Error('the server does not answer'))
    else this.request('sync', true, (xid) => encode.sync(xid, '/'), ignore)
  }

  #read(reader: Reader): void {
    const xid = reader.int()
    const zxid = reader.long()
    const code = reader.int()
    if (xid === XID.notification) return this.watches.fire(readEvent(reader))
    if (xid === XID.auth) {
      if (code !== 0) throw new ZooKeeperError(CODE.authFailed, 'the server refused the user or password')
      return
    }
    if (xid === XID.setWatches) return
    const request = this.#unanswered.answered(xid)
    if (zxid > 0n) this.#lastZxid = zxid
    if (code === CODE.sessionExpired) {
      this.#forget()
      request.done(new ZooKeeperError(code, request.what), NOTHING, zxid)
      throw new Error('the session has expired')
    }
    // Another connection has taken the session over: this one is not to be trusted any more.
    if (code === CODE.sessionMoved) {
      request.done(new ZooKeeperError(CODE.connectionLoss, request.what), NOTHING, zxid)
      throw new Error('the session has moved to another server')
    }
    if (request.led) this.#belief.answered(request.mark, performance.now())
    request.done(code === 0 ? undefined : new ZooKeeperError(code, request.what), reader, zxid)
  }

  /** The servers ended the session. */
  #forget(): void {
    this.#id = 0n
    this.#password = NO_PASSWORD
    this.#dials.reset()
    this.watches.clear()
    this.#events.expired()
  }

  #closed(error: Error, host: Host): void {
    clearTimeout(this.#timer)
    this.#connection = undefined
    this.#lastError = new Error(`${host.host}:${host.port}: ${error.message}`, { cause: error })
    const wasConnected = this.#state === 'connected'
    if (this.#state !== 'closed') this.#state = 'connecting'
    const code = this.#id === 0n ? CODE.sessionExpired : CODE.connectionLoss
    this.#unanswered.fail(({ what }) => new ZooKeeperError(code, what, { cause: this.#lastError }))
    if (this.#closing) return
    if (wasConnected) this.#events.disconnected()
    this.#timer = setTimeout(() => this.#dial(), this.#dials.delayMs(this.#timeoutMs))
    this.#timer.unref()
  }
}

/** A server without a majority that still lets read, or that is behind what we saw, says nothing and hangs up. */
function turnedAway(error: Error): Error {
  if (error.message !== HUNG_UP) return error
  return new Error(`${HUNG_UP}: it has no majority, or only lets read`, { cause: error })
}

function ignore(): void {
  // The answer itself is all that a beat asks for.
}
