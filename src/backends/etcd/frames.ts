/** HTTP/2's frames (RFC 9113): what travels on the connection. */

export const DATA = 0
export const HEADERS = 1
export const RESET = 3
export const SETTINGS = 4
export const PING = 6
export const GO_AWAY = 7
export const WINDOW_UPDATE = 8
export const CONTINUATION = 9

/** Flags. END_STREAM and ACK are the same bit, on different frames. */
export const END_STREAM = 1
export const ACK = 1
export const END_HEADERS = 4
const PADDED = 8
const PRIORITY = 0x20

const HEAD_BYTES = 9

/** The longest payload that either side may send, unless the other asked for more. */
export const LONGEST_PAYLOAD = 16_384

export interface Frame {
  readonly type: number
  readonly flags: number
  readonly stream: number
  /** Without padding. */
  readonly payload: Buffer
  /** With all that came in its payload: so much room it took. */
  readonly length: number
}

/** A frame as it is sent; the payload may come in two parts. */
export function frame(type: number, flags: number, stream: number, payload: Buffer, more?: Buffer): Buffer {
  const length = payload.length + (more?.length ?? 0)
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + length)
  bytes.writeUIntBE(length, 0, 3)
  bytes[3] = type
  bytes[4] = flags
  bytes.writeUInt32BE(stream, 5)
  payload.copy(bytes, HEAD_BYTES)
  more?.copy(bytes, HEAD_BYTES + payload.length)
  return bytes
}

/** A payload of numbers of four bytes. */
export function words(...numbers: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(4 * numbers.length)
  for (const [index, number] of numbers.entries()) bytes.writeUInt32BE(number, 4 * index)
  return bytes
}

/** The settings in a payload: a number of two bytes and a value of four each. */
export function readSettings(payload: Buffer): Map<number, number> {
  const settings = new Map<number, number>()
  for (let at = 0; at + 6 <= payload.length; at += 6)
    settings.set(payload.readUInt16BE(at), payload.readUInt32BE(at + 2))
  return settings
}

export function settingsPayload(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const bytes = Buffer.allocUnsafe(6 * settings.length)
  for (const [index, [id, value]] of settings.entries()) {
    bytes.writeUInt16BE(id, 6 * index)
    bytes.writeUInt32BE(value, 6 * index + 2)
  }
  return bytes
}

/** Cuts what arrives into frames. Throws where it cannot be HTTP/2. */
export class FrameReader {
  #rest: Buffer | undefined

  read(chunk: Buffer, take: (frame: Frame) => void): void {
    const bytes = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk])
    let at = 0
    while (at + HEAD_BYTES <= bytes.length) {
      const length = bytes.readUIntBE(at, 3)
      if (length > LONGEST_PAYLOAD) throw new RangeError('the server does not speak HTTP/2')
      const end = at + HEAD_BYTES + length
      if (end > bytes.length) break
      const type = bytes[at + 3]!
      const flags = bytes[at + 4]!
      const stream = bytes.readUInt32BE(at + 5) & 0x7fffffff
      const payload = bare(type, flags, bytes.subarray(at + HEAD_BYTES, end))
      at = end
      take({ type, flags, stream, payload, length })
    }
    this.#rest = at === bytes.length ? undefined : bytes.subarray(at)
  }
}

/** The payload without padding, and without the priority that some heads have. */
function bare(type: number, flags: number, payload: Buffer): Buffer {
  if (type !== DATA && type !== HEADERS) return payload
  let start = 0
  let end = payload.length
  if ((flags & PADDED) !== 0) {
    start = 1
    end -= payload[0] ?? 0
  }
  if (type === HEADERS && (flags & PRIORITY) !== 0) start += 5
  if (start > end) throw new RangeError('a frame is shorter than its padding')
  return start === 0 && end === payload.length ? payload : payload.subarray(start, end)
}
