import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
} from 'node:http2'
import type { SecureContextOptions } from 'node:tls'
import { Reader } from './wire.js'

/** What gRPC or the connection said instead of an answer. */
export class RpcError extends Error {
  /** gRPC's status code; 14 (unavailable) for a broken connection, 4 for a call that took too long. */
  readonly status: number
  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'RpcError'
    this.status = status
  }
}

export const DEADLINE_EXCEEDED = 4
export const UNAVAILABLE = 14
export const UNAUTHENTICATED = 16

/** One member of the cluster, and how to reach it. */
export interface Endpoint {
  readonly host: string
  readonly port: number
  readonly tls?: TlsOptions
}

/** As for `tls.connect`; empty: the system's own certificate authorities. */
export interface TlsOptions extends Pick<SecureContextOptions, 'ca' | 'cert' | 'key' | 'passphrase'> {
  /** The name that the server's certificate must bear, where it is not the host's. */
  readonly servername?: string
}

/** An open stream of messages both ways. */
export interface MessageStream {
  send(message: Buffer): void
  end(): void
}

/**
 * How long a connection with a call under way may be silent before it is asked for a sign of life, and how
 * long that may take. A member that is stopped or cut off must be left soon enough to renew a short lease
 * at another one.
 */
const SILENCE_MS = 700

/**
 * A connection to one member: gRPC over node's own HTTP/2.
 *
 * The gRPC library keeps the process alive while any call is open, and a watch is a call that is open for
 * ever; here the socket is unreferenced (docs/decisions say more).
 */
export class Connection {
  readonly endpoint: Endpoint
  /** Settles when the connection is over, with the reason. */
  readonly closed: Promise<Error>
  readonly #session: ClientHttp2Session
  #reason: Error | undefined
  #heardAt: number = performance.now()
  #open = 0
  #watchdog: NodeJS.Timeout | undefined

  private constructor(endpoint: Endpoint, session: ClientHttp2Session) {
    this.endpoint = endpoint
    this.#session = session
    this.closed = new Promise((resolve) => {
      session.once('close', () => {
        clearInterval(this.#watchdog)
        resolve(this.#reason ?? new Error('the server closed the connection'))
      })
    })
    session.on('error', (error: Error) => {
      this.#reason ??= error
    })
    session.on('goaway', () => session.close())
    session.unref()
  }

  /** Connects, or rejects within `timeoutMs`. */
  static async open(endpoint: Endpoint, timeoutMs: number): Promise<Connection> {
    const authority = endpoint.host.includes(':') ? `[${endpoint.host}]` : endpoint.host
    const scheme = endpoint.tls === undefined ? 'http' : 'https'
    const session = connect(`${scheme}://${authority}:${endpoint.port}`, { ...endpoint.tls })
    await new Promise<void>((resolve, reject) => {
      // Kept alive: someone waits for this very connection.
      const timer = setTimeout(() => {
        session.destroy()
        reject(new Error(`no answer within ${timeoutMs} ms`))
      }, timeoutMs)
      const failed = (error?: Error): void => {
        clearTimeout(timer)
        reject(error ?? new Error('the server closed the connection'))
      }
      session.once('error', failed)
      session.once('close', failed)
      // Not 'connect': the server's settings show that it speaks HTTP/2, and not something else.
      session.once('remoteSettings', () => {
        clearTimeout(timer)
        session.off('error', failed)
        session.off('close', failed)
        resolve()
      })
    })
    return new Connection(endpoint, session)
  }

  get usable(): boolean {
    return !this.#session.destroyed && !this.#session.closed
  }

  /** One request, one answer. A keep-alive is asked like this too: a stream of one message. */
  call<T>(
    path: string,
    message: Buffer,
    read: (reader: Reader) => T,
    options: { readonly timeoutMs: number; readonly token?: string | undefined },
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      let answer: Buffer | undefined
      const { timeoutMs, token } = options
      const stream = this.#request(path, token, timeoutMs, {
        message: (body) => {
          answer = body
        },
        end: (error) => {
          clearTimeout(timer)
          if (error !== undefined) return reject(error)
          if (answer === undefined) return reject(new RpcError(UNAVAILABLE, 'the server sent no answer'))
          try {
            resolve(read(new Reader(answer)))
          } catch (cause) {
            reject(new RpcError(UNAVAILABLE, 'the answer cannot be read', { cause }))
          }
        },
      })
      const timer = setTimeout(() => {
        reject(new RpcError(DEADLINE_EXCEEDED, `no answer within ${timeoutMs} ms`))
        stream?.close(constants.NGHTTP2_CANCEL)
      }, timeoutMs)
      timer.unref()
      stream?.end(frame(message))
    })
  }

  /** A stream that stays open. `ended` is called once, also when it could not be opened. */
  stream(
    path: string,
    token: string | undefined,
    message: (reader: Reader) => void,
    ended: (error: Error) => void,
  ): MessageStream {
    const stream = this.#request(path, token, undefined, {
      message: (body) => message(new Reader(body)),
      end: (error) => ended(error ?? new RpcError(UNAVAILABLE, 'the server ended the stream')),
    })
    return {
      send: (body) => {
        if (stream !== undefined && !stream.destroyed && !stream.writableEnded) stream.write(frame(body))
      },
      end: () => stream?.close(constants.NGHTTP2_CANCEL),
    }
  }

  close(reason?: Error): void {
    this.#reason ??= reason
    if (!this.#session.destroyed) this.#session.destroy()
  }

  #request(
    path: string,
    token: string | undefined,
    timeoutMs: number | undefined,
    on: { message(body: Buffer): void; end(error?: RpcError): void },
  ): ClientHttp2Stream | undefined {
    let stream: ClientHttp2Stream
    try {
      stream = this.#session.request({
        ':method': 'POST',
        ':path': path,
        'content-type': 'application/grpc',
        te: 'trailers',
        // A member without a leader says so at once, instead of holding the call until it times out.
        hasleader: 'true',
        ...(timeoutMs === undefined ? {} : { 'grpc-timeout': `${Math.ceil(timeoutMs)}m` }),
        ...(token === undefined ? {} : { token }),
      })
    } catch (cause) {
      // Told later, as every other failure is: callers have not finished setting up.
      queueMicrotask(() => on.end(new RpcError(UNAVAILABLE, 'the connection is closed', { cause })))
      return undefined
    }
    const watched = timeoutMs !== undefined
    if (watched) this.#callBegins()
    let failure: RpcError | undefined
    let status: RpcError | 'ok' | undefined
    const frames = new Frames((body) => on.message(body))
    const heard = (headers: IncomingHttpHeaders): void => {
      this.#heardAt = performance.now()
      status = grpcStatus(headers) ?? status
    }
    stream.on('response', heard)
    stream.on('trailers', heard)
    stream.on('data', (chunk: Buffer) => {
      this.#heardAt = performance.now()
      frames.push(chunk)
    })
    stream.on('error', (cause: Error) => {
      failure ??= new RpcError(UNAVAILABLE, `the call broke off (${cause.message})`, { cause })
    })
    stream.once('close', () => {
      if (watched) this.#open -= 1
      if (status === 'ok') return on.end()
      const reason = this.#reason
      on.end(
        status ??
          failure ??
          new RpcError(UNAVAILABLE, 'the connection broke', reason === undefined ? {} : { cause: reason }),
      )
    })
    return stream
  }

  /** A stopped process or a cut cable closes nothing: only its silence tells. */
  #callBegins(): void {
    if (this.#open++ === 0) this.#heardAt = performance.now()
    if (this.#watchdog !== undefined) return
    this.#watchdog = setInterval(() => {
      if (this.#open === 0) {
        clearInterval(this.#watchdog)
        this.#watchdog = undefined
      } else if (performance.now() - this.#heardAt > SILENCE_MS) {
        this.#askForLife()
      }
    }, SILENCE_MS)
    this.#watchdog.unref()
  }

  #askForLife(): void {
    let alive = false
    const timer = setTimeout(() => {
      if (!alive) this.close(new Error(`the server has been silent for more than ${2 * SILENCE_MS} ms`))
    }, SILENCE_MS)
    timer.unref()
    if (this.#session.destroyed) return
    this.#session.ping((error) => {
      if (error !== null) return
      alive = true
      clearTimeout(timer)
      this.#heardAt = performance.now()
    })
  }
}

/** gRPC's frame: one byte (not compressed), four of length, the message. */
function frame(message: Buffer): Buffer {
  const framed = Buffer.allocUnsafe(5 + message.length)
  framed[0] = 0
  framed.writeUInt32BE(message.length, 1)
  message.copy(framed, 5)
  return framed
}

/** Puts messages together again from the pieces in which they arrive. */
class Frames {
  #rest: Buffer = Buffer.alloc(0)
  readonly #message: (body: Buffer) => void

  constructor(message: (body: Buffer) => void) {
    this.#message = message
  }

  push(chunk: Buffer): void {
    let data = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    while (data.length >= 5) {
      const end = 5 + data.readUInt32BE(1)
      if (data.length < end) break
      this.#message(data.subarray(5, end))
      data = data.subarray(end)
    }
    this.#rest = data
  }
}

/** The status in a response's headers or trailers; undefined where they have none. */
function grpcStatus(headers: IncomingHttpHeaders & IncomingHttpStatusHeader): RpcError | 'ok' | undefined {
  const status = headers['grpc-status']
  if (status === undefined) {
    const http = headers[':status']
    return http === undefined || http === 200 ? undefined : new RpcError(UNAVAILABLE, `HTTP status ${http}`)
  }
  if (status === '0') return 'ok'
  return new RpcError(Number(status), decodeMessage([headers['grpc-message'] ?? 'no message'].flat().join(' ')))
}

function decodeMessage(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    // It is percent-encoded by the standard; one that is not is shown as it came.
    return text
  }
}
