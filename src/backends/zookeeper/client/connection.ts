import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls, type ConnectionOptions } from 'node:tls'
import { Reader } from './jute.js'

export interface Host {
  readonly host: string
  readonly port: number
}

export interface ConnectionEvents {
  /** The server can be written to. */
  ready(): void
  /** One packet arrived. What it throws ends the connection. */
  packet(reader: Reader): void
  /** The connection is over; called once, also after `destroy`. */
  closed(error: Error): void
}

/** No answer of a lock is near this; a length beyond it means that the other side is no ZooKeeper server. */
const LONGEST_PACKET = 64 * 1024 * 1024

/** A microtask by way of a settled promise costs a fraction of `queueMicrotask`. */
const SETTLED = Promise.resolve()

/** Why a connection is over that the other side ended in order. */
export const HUNG_UP = 'the server closed the connection'

/** One TCP or TLS connection to one server: packets in, packets out, nothing remembered. */
export class Connection {
  readonly #socket: Socket
  readonly #events: ConnectionEvents
  #outgoing: Buffer[] = []
  #incoming: Buffer[] = []
  #incomingBytes = 0
  #wanted = 4
  #closed = false
  #error: Error | undefined

  constructor(host: Host, tls: ConnectionOptions | undefined, timeoutMs: number, events: ConnectionEvents) {
    this.#events = events
    const socket = tls === undefined ? connectTcp(host) : connectTls({ ...serverName(host), ...tls, ...host })
    this.#socket = socket
    socket.unref()
    socket.setNoDelay(true)
    const timer = setTimeout(() => this.destroy(new Error(`no connection within ${timeoutMs} ms`)), timeoutMs)
    timer.unref()
    socket.once(tls === undefined ? 'connect' : 'secureConnect', () => {
      clearTimeout(timer)
      events.ready()
    })
    socket.on('data', (chunk) => this.#read(chunk))
    socket.on('error', (error) => {
      this.#error ??= error
    })
    socket.once('close', () => {
      clearTimeout(timer)
      this.#close()
    })
  }

  /** Sends a packet, together with all others of this turn of the event loop. */
  send(packet: Buffer): void {
    if (this.#outgoing.push(packet) === 1) void SETTLED.then(this.#flush)
  }

  /** Ends the connection at once. What was not read or written yet is dropped. */
  destroy(error: Error): void {
    this.#error ??= error
    this.#socket.destroy()
    // The socket's own event comes a turn later; until then nothing must be sent or read.
    this.#close()
  }

  readonly #flush = (): void => {
    const packets = this.#outgoing
    this.#outgoing = []
    if (!this.#closed) this.#socket.write(packets.length === 1 ? packets[0]! : Buffer.concat(packets))
  }

  #read(chunk: Buffer): void {
    this.#incoming.push(chunk)
    this.#incomingBytes += chunk.length
    // A long packet arrives in many chunks: they are joined once, when it is whole.
    if (this.#incomingBytes < this.#wanted) return
    const bytes = this.#incoming.length === 1 ? this.#incoming[0]! : Buffer.concat(this.#incoming)
    let at = 0
    this.#wanted = 4
    while (!this.#closed && bytes.length - at >= 4) {
      const length = bytes.readInt32BE(at)
      if (length < 0 || length > LONGEST_PACKET) {
        this.destroy(new Error("the server does not speak ZooKeeper's protocol"))
        return
      }
      if (bytes.length - at < 4 + length) {
        this.#wanted = 4 + length
        break
      }
      try {
        this.#events.packet(new Reader(bytes, at + 4, at + 4 + length))
      } catch (error) {
        this.destroy(error instanceof Error ? error : new Error(String(error)))
        return
      }
      at += 4 + length
    }
    this.#incoming = at < bytes.length ? [bytes.subarray(at)] : []
    this.#incomingBytes = bytes.length - at
  }

  #close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#events.closed(this.#error ?? new Error(HUNG_UP))
  }
}

/** An address is no name: a server's certificate is then checked against the address itself. */
function serverName({ host }: Host): { servername?: string } {
  return isIP(host) === 0 ? { servername: host } : {}
}
