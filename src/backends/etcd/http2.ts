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
  LONGEST_PAYLOAD,
  PING,
  readSettings,
  RESET,
  SETTINGS,
  settingsPayload,
  WINDOW_UPDATE,
  words,
} from './frames.js'
import { FieldReader, type Fields } from './hpack.js'

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
  readonly id: number
  readonly events: StreamEvents
  /** What may still be sent on it before the server makes room. */
  room: number
  /** What waits for room. */
  readonly unsent: { readonly bytes: Buffer; readonly end: boolean }[]
  received: number
}

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')
const [ENABLE_PUSH, INITIAL_WINDOW] = [2, 4]
const DEFAULT_WINDOW = 65_535
/** What the server may send before we say that we read it: on one stream, and on all together. */
const STREAM_WINDOW = 16 * 1_024 * 1_024
const WINDOW = 4 * STREAM_WINDOW
const LAST_STREAM = 2 ** 31 - 1
const LONGEST_HEAD = 256 * 1_024
const CANCEL = 8
/**
 * A Go server measures the line with a ping at nearly every request. An answer that travels with the next request
 * costs nobody a packet of its own; so it waits for one, though not for long.
 */
const PONG_DELAY_MS = 20

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
  readonly #out: Buffer[] = []
  readonly #pongs: Buffer[] = []
  /** A head that comes in several frames. */
  #head: { readonly stream: number; readonly flags: number; readonly parts: Buffer[] } | undefined
  #nextId = 1
  #room = DEFAULT_WINDOW
  #streamRoom = DEFAULT_WINDOW
  #received = 0
  #greeted: (() => void) | undefined
  #leaving = false
  #closed = false

  /** `over` is called once, when the connection has ended. */
  constructor(socket: Socket, greeted: () => void, over: (error: Error) => void) {
    this.#socket = socket
    this.#greeted = greeted
    this.#over = over
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
    socket.on('error', (error) => this.close(error))
    socket.on('close', () => this.close(new Error('the server closed the connection')))
    const settings = [[ENABLE_PUSH, 0] as const, [INITIAL_WINDOW, STREAM_WINDOW] as const]
    this.#write(PREFACE)
    this.#write(frame(SETTINGS, 0, 0, settingsPayload(settings)))
    this.#write(frame(WINDOW_UPDATE, 0, 0, words(WINDOW - DEFAULT_WINDOW)))
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
    this.#streams.set(id, { id, events, room: this.#streamRoom, unsent: [], received: 0 })
    this.#write(frame(HEADERS, END_HEADERS, id, head))
    return id
  }

  /** Sends data on a stream, as soon as the server has room for it; `end`: nothing follows. */
  send(id: number, bytes: Buffer, end: boolean): void {
    const stream = this.#streams.get(id)
    if (stream === undefined) return
    stream.unsent.push({ bytes, end })
    this.#sendWhatFits(stream)
  }

  /** Ends a stream at once. Its `over` is not called. */
  cancel(id: number): void {
    if (!this.#streams.delete(id)) return
    this.#write(frame(RESET, 0, id, words(CANCEL)))
    this.#endIfLeft()
  }

  /** Calls back when the server answers. */
  ping(answered: () => void): void {
    if (this.#closed) return
    this.#pings.push(answered)
    this.#write(frame(PING, 0, 0, Buffer.alloc(8)))
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

  /** What is sent in one turn of the event loop goes out together. */
  #write(bytes: Buffer): void {
    if (this.#out.push(bytes) === 1) process.nextTick(this.#flush)
  }

  readonly #flush = (): void => {
    const parts = this.#pongs.splice(0).concat(this.#out.splice(0))
    if (this.#closed || parts.length === 0) return
    this.#socket.write(parts.length === 1 ? parts[0]! : Buffer.concat(parts))
  }

  #pong(payload: Buffer): void {
    if (this.#pongs.push(frame(PING, ACK, 0, payload)) === 1) setTimeout(this.#flush, PONG_DELAY_MS).unref()
  }

  #sendWhatFits(stream: Stream): void {
    for (let next = stream.unsent[0]; next !== undefined; next = stream.unsent[0]) {
      const fits = Math.min(next.bytes.length, this.#room, stream.room, LONGEST_PAYLOAD)
      if (fits === 0 && next.bytes.length > 0) return
      const isWhole = fits === next.bytes.length
      this.#room -= fits
      stream.room -= fits
      const part = isWhole ? next.bytes : next.bytes.subarray(0, fits)
      this.#write(frame(DATA, isWhole && next.end ? END_STREAM : 0, stream.id, part))
      if (isWhole) stream.unsent.shift()
      else stream.unsent[0] = { bytes: next.bytes.subarray(fits), end: next.end }
    }
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
    else if (type === PING && (flags & ACK) === 0) this.#pong(payload)
    else if (type === PING) this.#pings.shift()?.()
    else if (type === GO_AWAY) this.#takeLeave(payload.readUInt32BE(0) & LAST_STREAM)
    else if (type === WINDOW_UPDATE) this.#takeRoom(id, payload.readUInt32BE(0) & LAST_STREAM)
    // Anything else has nothing to say to a client like this one.
  }

  #takeData(id: number, flags: number, payload: Buffer, length: number): void {
    const stream = this.#streams.get(id)
    this.#received += length
    if (this.#received > WINDOW / 2) {
      this.#write(frame(WINDOW_UPDATE, 0, 0, words(this.#received)))
      this.#received = 0
    }
    if (stream === undefined) return
    stream.received += length
    if (stream.received > STREAM_WINDOW / 2) {
      this.#write(frame(WINDOW_UPDATE, 0, id, words(stream.received)))
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
    const room = readSettings(payload).get(INITIAL_WINDOW)
    if (room !== undefined) {
      for (const stream of this.#streams.values()) stream.room += room - this.#streamRoom
      this.#streamRoom = room
    }
    this.#write(frame(SETTINGS, ACK, 0, Buffer.alloc(0)))
    this.#greeted?.()
    this.#greeted = undefined
    if (room !== undefined) for (const stream of this.#streams.values()) this.#sendWhatFits(stream)
  }

  #takeRoom(id: number, more: number): void {
    if (id !== 0) {
      const stream = this.#streams.get(id)
      if (stream === undefined) return
      stream.room += more
      return this.#sendWhatFits(stream)
    }
    this.#room += more
    for (const stream of this.#streams.values()) if (stream.unsent.length > 0) this.#sendWhatFits(stream)
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
    stream.events.over(error)
    this.#endIfLeft()
  }

  #endIfLeft(): void {
    if (this.#leaving && this.#streams.size === 0) this.close(new Error('the server closed the connection'))
  }
}
