import { connect, type Socket } from 'node:net'

const TIMEOUT_MS = 2_500

interface Waiting {
  readonly resolve: (line: string) => void
  readonly reject: (error: Error) => void
}

/** As much of a memcached client as the posts use: one connection, commands of one line each, a time-out. */
export class MemcachedClient {
  readonly #port: number
  readonly #host: string
  #socket: Socket | undefined
  #text = ''
  #waiting: Waiting[] = []

  constructor(url: string) {
    const { hostname, port } = new URL(url)
    this.#host = hostname
    this.#port = Number(port)
  }

  /** Stores the value unless there is one. */
  async add(key: string, value: string, seconds: number): Promise<boolean> {
    const answer = await this.#ask(`add ${key} 0 ${seconds} ${Buffer.byteLength(value)}\r\n${value}\r\n`)
    return known(answer, 'STORED', 'NOT_STORED')
  }

  async delete(key: string): Promise<boolean> {
    return known(await this.#ask(`delete ${key}\r\n`), 'DELETED', 'NOT_FOUND')
  }

  close(): void {
    this.#socket?.destroy()
  }

  #ask(command: string): Promise<string> {
    const socket = this.#connection()
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => socket.destroy(new Error('memcached did not answer in time')), TIMEOUT_MS)
      const settled = <T>(settle: (value: T) => void) => {
        return (value: T) => {
          clearTimeout(timer)
          settle(value)
        }
      }
      this.#waiting.push({ resolve: settled(resolve), reject: settled(reject) })
      socket.write(command)
    })
  }

  #connection(): Socket {
    if (this.#socket !== undefined) return this.#socket
    const socket = connect({ host: this.#host, port: this.#port, noDelay: true })
    let reason = new Error('memcached closed the connection')
    socket.on('error', (error) => (reason = error))
    socket.on('data', (chunk) => this.#read(chunk.toString()))
    socket.on('close', () => {
      this.#socket = undefined
      this.#text = ''
      const lost = this.#waiting
      this.#waiting = []
      for (const { reject } of lost) reject(reason)
    })
    this.#socket = socket
    return socket
  }

  #read(chunk: string): void {
    const lines = `${this.#text}${chunk}`.split('\r\n')
    this.#text = lines.pop() ?? ''
    for (const line of lines) this.#waiting.shift()?.resolve(line)
  }
}

function known(answer: string, yes: string, no: string): boolean {
  if (answer === yes) return true
  if (answer === no) return false
  throw new Error(`memcached said: ${answer}`)
}
