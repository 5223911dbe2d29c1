import type { Socket } from 'node:net'
import {
  ACK,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  type Frame,
  frame,
  FrameReader,
  GO_AWAY,
  HEADERS,
  PING,
  readSettings,
  RESET,
  SETTINGS,
  settingsPayload,
  WINDOW_UPDATE,
  words,
} from './frames.js'
import { FieldReader, type Fields } from './hpack.js'
import { DEFAULT_WINDOW, Outgoing } from './outgoing.js'

/** Who is told what arrives on a stream. */
export interface StreamEvents {
  /** The head of an answer, or what follows its body. */
  fields(fields: Fields): void
  data(bytes: Buffer): void
  /** Once, when nothing more comes; with an error where the server did not end it itself. */
  over(error?: Error): void
}

/** One exchange on the connection. */
interface Stream {
  readonly events: StreamEvents
  /** What came since the server was last told that there is room again. */
  received: number
}

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')
const [ENABLE_PUSH, INITIAL_WINDOW] = [2, 4]
/** What the server may send before we say that we read it: on one stream, and on all together. */
const STREAM_WINDOW = 16 * 1_024 * 1_024
const WINDOW = 4 * STREAM_WINDOW
const LAST_STREAM = 2 ** 31 - 1
const LONGEST_HEAD = 256 * 1_024
const CANCEL = 8

/**
 * The client's side of an HTTP/2 connection, as little of it as gRPC needs.
 *
 * Node's own does the same at several times the cost, most of it for stream objects, their events and their
 * bookkeeping; a hand-off waits for every microsecond of that (docs/decisions/0013 has the numbers).
 */
export class Http2 {
  readonly #socket: Socket
  readonly #over: (error: Error) => void
  readonly #frames = new FrameReader()
  readonly #fields = new FieldReader()
  readonly #streams = new Map<number, Stream>()
  readonly #pings: (() => void)[] = []
  readonly #outgoing: Outgoing
  /** A head that comes in several frames. */
  #head: { readonly stream: number; readonly flags: number; readonly parts: Buffer[] } | undefined
  #nextId = 1
  #received = 0
  #greeted: (() => void) | undefined
  #leaving = false
  #closed = false

  /** `over` is called once, when the connection has ended. */
  constructor(socket: Socket, greeted: () => void, over: (error: Error) => void) {
    this.#socket = socket
    this.#outgoing = new Outgoing(socket)
    this.#greeted = greeted
    this.#over = over
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
    socket.on('error', (error) => this.close(error))
    socket.on('close', () => this.close(new Error('the server closed the connection')))
    const settings = [[ENABLE_PUSH, 0] as const, [INITIAL_WINDOW, STREAM_WINDOW] as const]
    this.#outgoing.write(PREFACE)
    this.#outgoing.write(frame(SETTINGS, 0, 0, settingsPayload(settings)))
    this.#outgoing.write(frame(WINDOW_UPDATE, 0, 0, words(WINDOW - DEFAULT_WINDOW)))
  }

  /** Whether a new stream may be opened. */
  get usable(): boolean {
    return !this.#closed && !this.#leaving && this.#nextId <= LAST_STREAM
  }

  /** Sends the head of a request. The number that is returned names the stream. */
  open(head: Buffer, events: StreamEvents): number {
    if (!this.usable) throw new Error('the connection is closed')
    const id = this.#nextId
    this.#nextId += 2
    this.#streams.set(id, { events, received: 0 })
    this.#outgoing.open(id)
    this.#outgoing.write(frame(HEADERS, END_HEADERS, id, head))
    return id
  }

  /** Sends data on a stream, as soon as the server has room for it; `end`: nothing follows. */
  send(id: number, bytes: Buffer, end: boolean): void {
    this.#outgoing.send(id, bytes, end)
  }

  /** Ends a stream at once. Its `over` is not called. */
  cancel(id: number): void {
    if (!this.#streams.delete(id)) return
    this.#outgoing.close(id)
    this.#outgoing.write(frame(RESET, 0, id, words(CANCEL)))
    this.#endIfLeft()
  }

  /** Calls back when the server answers. */
  ping(answered: () => void): void {
    if (this.#closed) return
    this.#pings.push(answered)
    this.#outgoing.write(frame(PING, 0, 0, Buffer.alloc(8)))
  }

  close(reason: Error): void {
    if (this.#closed) return
    this.#closed = true
    this.#socket.destroy()
    const streams = [...this.#streams.values()]
    this.#streams.clear()
    for (const { events } of streams) events.over(reason)
    this.#over(reason)
  }

  #read(chunk: Buffer): void {
    try {
      this.#frames.read(chunk, this.#take)
    } catch (error) {
      this.close(error instanceof Error ? error : new Error(String(error)))
    }
  }

  readonly #take = ({ type, flags, stream: id, payload, length }: Frame): void => {
    if (this.#closed) return
    if (this.#greeted !== undefined && type !== SETTINGS) throw new RangeError('the server does not speak HTTP/2')
    if (this.#head !== undefined && type !== CONTINUATION) throw new RangeError('a head was broken off')
    if (type === DATA) this.#takeData(id, flags, payload, length)
    else if (type === HEADERS) this.#takeHead({ stream: id, flags, parts: [payload] }, flags)
    else if (type === CONTINUATION && this.#head !== undefined) {
      this.#head.parts.push(payload)
      this.#takeHead(this.#head, flags)
    } else if (type === RESET) this.#end(id, new Error(`the server broke it off, code ${payload.readUInt32BE(0)}`))
    else if (type === SETTINGS) this.#takeSettings(flags, payload)
    else if (type === PING && (flags & ACK) === 0) this.#outgoing.pong(payload)
    else if (type === PING) this.#pings.shift()?.()
    else if (type === GO_AWAY) this.#takeLeave(payload.readUInt32BE(0) & LAST_STREAM)
    else if (type === WINDOW_UPDATE) this.#outgoing.makeRoom(id, payload.readUInt32BE(0) & LAST_STREAM)
    // Anything else has nothing to say to a client like this one.
  }

  #takeData(id: number, flags: number, payload: Buffer, length: number): void {
    const stream = this.#streams.get(id)
    this.#received += length
    if (this.#received > WINDOW / 2) {
      this.#outgoing.write(frame(WINDOW_UPDATE, 0, 0, words(this.#received)))
      this.#received = 0
    }
    if (stream === undefined) return
    stream.received += length
    if (stream.received > STREAM_WINDOW / 2) {
      this.#outgoing.write(frame(WINDOW_UPDATE, 0, id, words(stream.received)))
      stream.received = 0
    }
    if (payload.length > 0) stream.events.data(payload)
    if ((flags & END_STREAM) !== 0) this.#end(id)
  }

  #takeHead(head: { stream: number; flags: number; parts: Buffer[] }, flags: number): void {
    const isWhole = (flags & END_HEADERS) !== 0
    this.#head = isWhole ? undefined : head
    if (!isWhole) {
      const length = head.parts.reduce((sum, part) => sum + part.length, 0)
      if (length > LONGEST_HEAD) throw new RangeError('a head is too long')
      return
    }
    // Also that of a stream which nobody waits for any more: later heads may build on it.
    const fields = this.#fields.read(head.parts.length === 1 ? head.parts[0]! : Buffer.concat(head.parts))
    this.#streams.get(head.stream)?.events.fields(fields)
    if ((head.flags & END_STREAM) !== 0) this.#end(head.stream)
  }

  #takeSettings(flags: number, payload: Buffer): void {
    if ((flags & ACK) !== 0) return
    this.#outgoing.write(frame(SETTINGS, ACK, 0, Buffer.alloc(0)))
    const room = readSettings(payload).get(INITIAL_WINDOW)
    if (room !== undefined) this.#outgoing.beginWith(room)
    this.#greeted?.()
    this.#greeted = undefined
  }

  /** The server is about to go: what it has not begun it will not do, the rest is brought to its end. */
  #takeLeave(last: number): void {
    this.#leaving = true
    for (const id of [...this.#streams.keys()]) if (id > last) this.#end(id, new Error('the server is leaving'))
    this.#endIfLeft()
  }

  #end(id: number, error?: Error): void {
    const stream = this.#streams.get(id)
    if (stream === undefined) return
    this.#streams.delete(id)
    this.#outgoing.close(id)
    stream.events.over(error)
    this.#endIfLeft()
  }

  #endIfLeft(): void {
    if (this.#leaving && this.#streams.size === 0) this.close(new Error('the server closed the connection'))
  }
}
