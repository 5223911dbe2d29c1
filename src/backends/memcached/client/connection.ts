import { connect as connectTcp, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { BackendError } from '../../../core/errors.js'
import { type Reply, ReplyParser } from './reply.js'

export interface Address {
  readonly host: string
  readonly port: number
}

export interface ConnectionSettings {
  readonly username?: string | undefined
  readonly password?: string | undefined
  readonly tls?: ConnectionOptions | boolean | undefined
  /** How long an answer may take, and a connection to be made. */
  readonly timeoutMs: number
}

/** Replies that say that the two sides no longer agree on where a command ends. */
const OUT_OF_STEP = new Set(['ERROR', 'CLIENT_ERROR'])
const OLDEST = '1.6'

interface Waiting {
  /** How many replies are still to come; Infinity: up to the line END. */
  left: number
  /** Something came: the time limit begins anew. */
  readonly hear: () => void
  /** Which replies of a list the caller wants; the last is always given. */
  readonly keep: ((reply: Reply) => boolean) | undefined
  readonly replies: Reply[]
  readonly resolve: (replies: Reply[]) => void
  readonly reject: (error: BackendError) => void
}

/**
 * One connection to one memcached server, that sends many commands without waiting for each reply.
 * It never keeps the process alive, and is never repaired: once broken it stays so.
 */
export class Connection {
  readonly #address: string
  readonly #socket: Socket
  readonly #timeoutMs: number
  readonly #parser = new ReplyParser()
  readonly #waiting: Waiting[] = []
  #broken: BackendError | undefined
  #maxItemBytes = 1_048_576
  #outbox = ''

  private constructor(socket: Socket, address: string, timeoutMs: number) {
    this.#socket = socket
    this.#address = address
    this.#timeoutMs = timeoutMs
    socket.unref()
    socket.on('data', (bytes) => this.#take(bytes))
    socket.on('error', (error) => this.#break(`broke: ${error.message}`, error))
    socket.on('close', () => this.#break('was closed by the server'))
  }

  /** Connects, says who we are, and asks for the version. Rejects with a `BackendError` that says what to do. */
  static async open(address: Address, settings: ConnectionSettings): Promise<Connection> {
    const name = `${address.host}:${address.port}`
    const socket = await connectSocket(address, name, settings)
    const connection = new Connection(socket, name, settings.timeoutMs)
    try {
      if (settings.username !== undefined) await connection.#authenticate(settings.username, settings.password ?? '')
      await connection.#checkVersion()
      await connection.#readLimit()
    } catch (error) {
      connection.close()
      throw error
    }
    return connection
  }

  get isOpen(): boolean {
    return this.#broken === undefined
  }

  /** The most that key, value and their header may have together (`memcached -I`). */
  get maxItemBytes(): number {
    return this.#maxItemBytes
  }

  /**
   * Sends commands, each with its data and without its last line end, and resolves with one reply for each,
   * in order. Rejects when the connection breaks or the answer takes too long: what was done then is unknown.
   */
  send(commands: readonly string[]): Promise<Reply[]> {
    if (commands.length === 0) return Promise.resolve([])
    return this.#send(`${commands.join('\r\n')}\r\n`, commands.length)
  }

  /**
   * Sends one command whose reply is many lines up to END, and keeps those that are wanted. They may take as long as
   * they need together: it is silence that must not last for longer than an answer may take.
   */
  async list(command: string, keep?: (reply: Reply) => boolean): Promise<Reply[]> {
    return await this.#send(`${command}\r\n`, Number.POSITIVE_INFINITY, keep)
  }

  close(): void {
    this.#break('was closed')
  }

  #send(text: string, left: number, keep?: (reply: Reply) => boolean): Promise<Reply[]> {
    if (this.#broken !== undefined) return Promise.reject(this.#broken)
    return new Promise((resolve, reject) => {
      let heard = false
      const timer = setTimeout(() => {
        heard = false
        setImmediate(() => heard || this.#tooLate(waiting))
      }, this.#timeoutMs)
      timer.unref()
      const waiting: Waiting = {
        left,
        keep,
        hear: () => {
          heard = true
          timer.refresh()
        },
        replies: [],
        resolve: (replies) => {
          clearTimeout(timer)
          resolve(replies)
        },
        reject: (error) => {
          clearTimeout(timer)
          reject(error)
        },
      }
      this.#waiting.push(waiting)
      this.#write(text)
    })
  }

  /**
   * A reply that is late leaves the later ones late as well: there is no way on but a new connection. Asked one
   * turn after the timer, because a busy event loop runs its timers before it reads what has long arrived.
   */
  #tooLate(waiting: Waiting): void {
    if (this.#waiting.includes(waiting)) this.#break(`did not answer within ${this.#timeoutMs} ms`)
  }

  /** What is sent in one turn of the event loop travels together. */
  #write(text: string): void {
    if (this.#outbox === '') process.nextTick(() => this.#flush())
    this.#outbox += text
  }

  #flush(): void {
    this.#socket.write(this.#outbox)
    this.#outbox = ''
  }

  #take(bytes: Buffer): void {
    if (this.#waiting[0]?.left === Number.POSITIVE_INFINITY) this.#waiting[0].hear()
    let replies: Reply[]
    try {
      replies = this.#parser.push(bytes)
    } catch (error) {
      return this.#break('answered something that is not memcached’s protocol', error)
    }
    for (const reply of replies) {
      const [first] = this.#waiting
      if (first === undefined) return this.#break(`answered '${reply.code}' although nothing was asked`)
      if (OUT_OF_STEP.has(reply.code))
        return this.#break(`refused a command: ${[reply.code, ...reply.words].join(' ')}`)
      first.left -= 1
      const last = first.left === 0 || endsList(first, reply)
      if (last || first.keep?.(reply) !== false) first.replies.push(reply)
      if (!last) continue
      this.#waiting.shift()
      first.resolve(first.replies)
    }
  }

  #break(what: string, cause?: unknown): void {
    if (this.#broken !== undefined) return
    const message = `The connection to memcached at ${this.#address} ${what}. Check that the server runs and can be reached.`
    this.#broken = new BackendError(message, { retryable: true, cause })
    this.#socket.destroy()
    for (const { reject } of this.#waiting.splice(0)) reject(this.#broken)
  }

  /** The text protocol's own way (`memcached -Y FILE`): the first command stores "user password" under any key. */
  async #authenticate(username: string, password: string): Promise<void> {
    const data = `${username} ${password}`
    const advice = `Check the user and the password in the URL, and that the server was started with an auth file (-Y); SASL (-S) is not supported.`
    let reply: Reply | undefined
    try {
      ;[reply] = await this.send([`set auth 0 0 ${Buffer.byteLength(data)}\r\n${data}`])
    } catch (error) {
      if (!(error instanceof BackendError) || !error.message.includes('CLIENT_ERROR')) throw error
      throw new BackendError(`memcached at ${this.#address} refused the password. ${advice}`, {
        retryable: false,
        cause: error,
      })
    }
    if (reply?.code === 'STORED') return
    throw new BackendError(`memcached at ${this.#address} refused the password. ${advice}`, { retryable: false })
  }

  async #checkVersion(): Promise<void> {
    let reply: Reply | undefined
    try {
      ;[reply] = await this.send(['version'])
    } catch (error) {
      if (!(error instanceof BackendError) || !error.message.includes('CLIENT_ERROR unauthenticated')) throw error
      const message = `memcached at ${this.#address} asks for a password. Write it as memcached://user:password@host.`
      throw new BackendError(message, { retryable: false, cause: error })
    }
    const version = reply?.code === 'VERSION' ? (reply.words[0] ?? '') : ''
    const [major = 0, minor = 0] = version.split('.').map(Number)
    if (major > 1 || (major === 1 && minor >= 6)) return
    const message = `The server at ${this.#address} is not memcached ${OLDEST} or newer (it says '${version}'). Its meta commands are needed: upgrade it.`
    throw new BackendError(message, { retryable: false })
  }

  async #readLimit(): Promise<void> {
    for (const { words } of await this.list('stats settings')) {
      if (words[0] === 'item_size_max') this.#maxItemBytes = Number(words[1])
    }
  }
}

function endsList(waiting: Waiting, reply: Reply): boolean {
  if (waiting.left !== Number.POSITIVE_INFINITY) return false
  return reply.code === 'END' || reply.code === 'BUSY' || reply.code === 'SERVER_ERROR'
}

function connectSocket(address: Address, name: string, settings: ConnectionSettings): Promise<Socket> {
  const { tls, timeoutMs } = settings
  return new Promise((resolve, reject) => {
    const options = { host: address.host, port: address.port, noDelay: true }
    const secure = tls !== undefined && tls !== false
    const names = typeof tls === 'object' ? tls : {}
    const socket = secure ? connectTls({ servername: address.host, ...names, ...options }) : connectTcp(options)
    const timer = setTimeout(() => fail(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
    // Whoever waits for this keeps the process alive, not we.
    timer.unref()
    socket.unref()
    const fail = (error: Error): void => {
      clearTimeout(timer)
      socket.destroy()
      const message = `Cannot connect to memcached at ${name}: ${error.message}. Check the host and port, and that the server runs.`
      reject(new BackendError(message, { retryable: true, cause: error }))
    }
    socket.once('error', fail)
    socket.once(secure ? 'secureConnect' : 'connect', () => {
      clearTimeout(timer)
      socket.removeListener('error', fail)
      socket.setKeepAlive(true, 10_000)
      resolve(socket)
    })
  })
}
