import { connect as connectPlain, isIP, type Socket } from 'node:net'
import { connect as connectTls, type SecureContextOptions } from 'node:tls'
import { DEADLINE_EXCEEDED, framed, MessageReader, RpcError, statusOf, UNAVAILABLE } from './grpc.js'
import { encodeFields } from './hpack.js'
import { Http2 } from './http2.js'
import { Reader } from './wire.js'

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

/** What a call or a stream hears. */
interface Listener {
  message(body: Buffer): void
  end(error?: RpcError): void
}

/**
 * How long a connection with a call under way may be silent before it is asked for a sign of life, and how
 * long that may take. A member that is stopped or cut off must be left soon enough to renew a short lease
 * at another one.
 */
const SILENCE_MS = 700

/**
 * A connection to one member: gRPC over HTTP/2.
 *
 * The gRPC library keeps the process alive while any call is open, and a watch is a call that is open for
 * ever; here the socket is unreferenced (docs/decisions say more).
 */
export class Connection {
  /** Settles when the connection is over, with the reason. */
  readonly closed: Promise<Error>
  readonly #http: Http2
  readonly #common: readonly (readonly [string, string])[]
  readonly #heads = new Map<string, Buffer>()
  #token: { readonly text: string; readonly head: Buffer } | undefined
  #heardAt: number = performance.now()
  #open = 0
  #watchdog: NodeJS.Timeout | undefined

  private constructor(endpoint: Endpoint, socket: Socket, greeted: () => void) {
    this.#common = [
      [':method', 'POST'],
      [':scheme', endpoint.tls === undefined ? 'http' : 'https'],
      [':authority', `${endpoint.host.includes(':') ? `[${endpoint.host}]` : endpoint.host}:${endpoint.port}`],
      ['content-type', 'application/grpc'],
      ['te', 'trailers'],
      // A member without a leader says so at once, instead of holding the call until it times out.
      ['hasleader', 'true'],
    ]
    let over: (error: Error) => void = () => undefined
    this.closed = new Promise((resolve) => {
      over = resolve
    })
    this.#http = new Http2(socket, greeted, (error) => {
      clearInterval(this.#watchdog)
      over(error)
    })
  }

  /** Connects, or rejects within `timeoutMs`. */
  static async open(endpoint: Endpoint, timeoutMs: number): Promise<Connection> {
    const socket = socketTo(endpoint)
    return await new Promise<Connection>((resolve, reject) => {
      // Kept alive: someone waits for this very connection.
      const timer = setTimeout(() => socket.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
      const failed = (error?: Error): void => {
        clearTimeout(timer)
        reject(error ?? new Error('the server closed the connection'))
      }
      socket.once('error', failed)
      socket.once('close', () => failed())
      socket.once(endpoint.tls === undefined ? 'connect' : 'secureConnect', () => {
        socket.setNoDelay(true)
        // Not before it greets: only that shows that it speaks HTTP/2, and not something else.
        const connection = new Connection(endpoint, socket, () => {
          clearTimeout(timer)
          socket.off('error', failed)
          socket.unref()
          resolve(connection)
        })
        void connection.closed.then(failed)
      })
    })
  }

  get usable(): boolean {
    return this.#http.usable
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
      this.#callBegins()
      const id = this.#request(path, token, timeoutMs, {
        message: (body) => {
          answer = body
        },
        end: (error) => {
          clearTimeout(timer)
          this.#open -= 1
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
        this.#open -= 1
        if (id !== undefined) this.#http.cancel(id)
        reject(new RpcError(DEADLINE_EXCEEDED, `no answer within ${timeoutMs} ms`))
      }, timeoutMs)
      timer.unref()
      if (id !== undefined) this.#http.send(id, framed(message), true)
    })
  }

  /** A stream that stays open. `ended` is called once, also when it could not be opened; not after `end`. */
  stream(
    path: string,
    token: string | undefined,
    message: (reader: Reader) => void,
    ended: (error: Error) => void,
  ): MessageStream {
    const id = this.#request(path, token, undefined, {
      message: (body) => message(new Reader(body)),
      end: (error) => ended(error ?? new RpcError(UNAVAILABLE, 'the server ended the stream')),
    })
    return {
      send: (body) => {
        if (id !== undefined) this.#http.send(id, framed(body), false)
      },
      end: () => {
        if (id !== undefined) this.#http.cancel(id)
      },
    }
  }

  close(reason: Error = new Error('the connection was closed')): void {
    this.#http.close(reason)
  }

  /** Opens a stream; undefined when that failed, which is told as every other failure is. */
  #request(path: string, token: string | undefined, timeoutMs: number | undefined, on: Listener): number | undefined {
    let status: RpcError | 'ok' | undefined
    const messages = new MessageReader((body) => on.message(body))
    try {
      return this.#http.open(this.#head(path, token, timeoutMs), {
        fields: (fields) => {
          this.#heardAt = performance.now()
          status = statusOf(fields) ?? status
        },
        data: (bytes) => {
          this.#heardAt = performance.now()
          messages.push(bytes)
        },
        over: (cause) => {
          if (status === 'ok') return on.end()
          const said = cause === undefined ? 'the call broke off' : `the call broke off (${cause.message})`
          on.end(status ?? new RpcError(UNAVAILABLE, said, cause === undefined ? {} : { cause }))
        },
      })
    } catch (cause) {
      // Later: the caller has not finished setting up.
      queueMicrotask(() => on.end(new RpcError(UNAVAILABLE, 'the connection is closed', { cause })))
      return undefined
    }
  }

  #head(path: string, token: string | undefined, timeoutMs: number | undefined): Buffer {
    const kind = `${path} ${timeoutMs}`
    let head = this.#heads.get(kind)
    if (head === undefined) {
      const timeout = timeoutMs === undefined ? [] : [['grpc-timeout', `${Math.ceil(timeoutMs)}m`] as const]
      head = encodeFields([[':path', path], ...this.#common, ...timeout])
      this.#heads.set(kind, head)
    }
    if (token === undefined) return head
    if (this.#token?.text !== token) this.#token = { text: token, head: encodeFields([['token', token]]) }
    return Buffer.concat([head, this.#token.head])
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
    const silent = (): void => {
      if (!alive) this.close(new Error(`the server has been silent for more than ${2 * SILENCE_MS} ms`))
    }
    // If it was this process that stood still, the answer lies in the socket: it is read before the verdict.
    const timer = setTimeout(() => setImmediate(silent), SILENCE_MS)
    timer.unref()
    this.#http.ping(() => {
      alive = true
      clearTimeout(timer)
      this.#heardAt = performance.now()
    })
  }
}

function socketTo({ host, port, tls }: Endpoint): Socket {
  if (tls === undefined) return connectPlain({ host, port })
  const servername = isIP(host) === 0 ? { servername: host } : {}
  return connectTls({ host, port, ALPNProtocols: ['h2'], ...servername, ...tls })
}
