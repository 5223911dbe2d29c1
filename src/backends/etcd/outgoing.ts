import type { Socket } from 'node:net'
import { ACK, DATA, END_STREAM, frame, LONGEST_PAYLOAD, PING } from './frames.js'

/** What one stream has still to send, and how much of it the server has room for. */
interface Lane {
  room: number
  readonly unsent: { readonly bytes: Buffer; readonly end: boolean }[]
}

/** How much may be sent before the server says otherwise: on one stream, and on all together. */
export const DEFAULT_WINDOW = 65_535

/**
 * The ping with which a Go server measures how much the line takes, always with these eight bytes. It sends one with
 * the first request after the last was answered: answered at once, that is two packets and two more waking processes
 * a call. What it would learn is of no use to calls as small as ours, so it hears of it now and then.
 */
const MEASURING = Buffer.from([2, 4, 16, 16, 9, 14, 7, 7])
const MEASURED_EVERY_MS = 500

/** The way out of a connection: frames that go together, and data within the room that the server has. */
export class Outgoing {
  readonly #socket: Socket
  readonly #lanes = new Map<number, Lane>()
  readonly #out: Buffer[] = []
  #room = DEFAULT_WINDOW
  #laneRoom = DEFAULT_WINDOW

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** What is sent in one turn of the event loop goes out together. */
  write(bytes: Buffer): void {
    if (this.#out.push(bytes) === 1) process.nextTick(this.#flush)
  }

  pong(payload: Buffer): void {
    const pong = frame(PING, ACK, 0, payload)
    if (payload.equals(MEASURING)) setTimeout(() => this.write(pong), MEASURED_EVERY_MS).unref()
    else this.write(pong)
  }

  open(stream: number): void {
    this.#lanes.set(stream, { room: this.#laneRoom, unsent: [] })
  }

  /** What it has not sent is not sent any more. */
  close(stream: number): void {
    this.#lanes.delete(stream)
  }

  /** Sends data as soon as the server has room for it; `end`: nothing follows. */
  send(stream: number, bytes: Buffer, end: boolean): void {
    const lane = this.#lanes.get(stream)
    if (lane === undefined) return
    lane.unsent.push({ bytes, end })
    this.#sendWhatFits(stream, lane)
  }

  /** The server has so much more room: on one stream, or (0) on all together. */
  makeRoom(stream: number, more: number): void {
    if (stream === 0) {
      this.#room += more
      return this.#sendAll()
    }
    const lane = this.#lanes.get(stream)
    if (lane === undefined) return
    lane.room += more
    this.#sendWhatFits(stream, lane)
  }

  /** What every stream begins with; those that there are get the difference. */
  beginWith(room: number): void {
    for (const lane of this.#lanes.values()) lane.room += room - this.#laneRoom
    this.#laneRoom = room
    this.#sendAll()
  }

  #sendAll(): void {
    for (const [stream, lane] of this.#lanes) if (lane.unsent.length > 0) this.#sendWhatFits(stream, lane)
  }

  #sendWhatFits(stream: number, lane: Lane): void {
    for (let next = lane.unsent[0]; next !== undefined; next = lane.unsent[0]) {
      const fits = Math.min(next.bytes.length, this.#room, lane.room, LONGEST_PAYLOAD)
      // A server may take room back, so there can be less than none.
      if (fits <= 0 && next.bytes.length > 0) return
      const isWhole = fits === next.bytes.length
      this.#room -= fits
      lane.room -= fits
      const part = isWhole ? next.bytes : next.bytes.subarray(0, fits)
      this.write(frame(DATA, isWhole && next.end ? END_STREAM : 0, stream, part))
      if (isWhole) lane.unsent.shift()
      else lane.unsent[0] = { bytes: next.bytes.subarray(fits), end: next.end }
    }
  }

  readonly #flush = (): void => {
    const parts = this.#out.splice(0)
    if (this.#socket.destroyed || parts.length === 0) return
    this.#socket.write(parts.length === 1 ? parts[0]! : Buffer.concat(parts))
  }
}
