/**
 * The few parts of protobuf's wire format that etcd's messages need.
 *
 * Keys travel through this backend as binary strings (one character a byte, 'latin1'), so that any
 * key of any other program survives the way here and back unchanged.
 */

/** What messages are written into before their length is known; lent to one writer at a time. */
let spare: Buffer | undefined
const SPARE_BYTES = 64 * 1_024

/** So much of an int64 is handled as a number, seven groups of seven bits: a bigint is made, or taken apart, once. */
const LOW_BITS = 49
const LOW_BITS_BIG = BigInt(LOW_BITS)

/** Writes one message after the other into one buffer. */
export class Writer {
  #buffer: Buffer
  #at = 0

  constructor() {
    this.#buffer = spare ?? Buffer.allocUnsafeSlow(SPARE_BYTES)
    spare = undefined
  }

  /** Leaves the field out when it is 0 or false, as proto3 does. */
  int(field: number, value: number | bigint): this {
    if (value === 0 || value === 0n) return this
    this.#room(16)
    this.#varint(field << 3)
    if (typeof value === 'number') this.#varint(value)
    else this.#big(value)
    return this
  }

  bytes(field: number, value: string | Buffer, encoding: 'latin1' | 'utf8' = 'latin1'): this {
    const length = typeof value === 'string' ? Buffer.byteLength(value, encoding) : value.length
    if (length === 0) return this
    this.#room(length + 16)
    this.#varint((field << 3) | 2)
    this.#varint(length)
    if (typeof value === 'string') this.#buffer.write(value, this.#at, length, encoding)
    else value.copy(this.#buffer, this.#at)
    this.#at += length
    return this
  }

  /**
   * Writes a message inside this one. Its length is not known before it is written, so three bytes are
   * kept free for it: protobuf allows a number to be padded, and 2 MB is more than etcd takes.
   */
  message(field: number, write: (writer: Writer) => void): this {
    this.#room(16)
    this.#varint((field << 3) | 2)
    const start = this.#at
    this.#at += 3
    write(this)
    const length = this.#at - start - 3
    this.#buffer[start] = (length & 0x7f) | 0x80
    this.#buffer[start + 1] = ((length >> 7) & 0x7f) | 0x80
    this.#buffer[start + 2] = length >> 14
    return this
  }

  /** The message. Nothing can be written after this. */
  finish(): Buffer {
    const message = Buffer.allocUnsafe(this.#at)
    this.#buffer.copy(message, 0, 0, this.#at)
    if (this.#buffer.length === SPARE_BYTES) spare = this.#buffer
    return message
  }

  #room(bytes: number): void {
    if (this.#at + bytes <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#at + bytes))
    this.#buffer.copy(larger, 0, 0, this.#at)
    this.#buffer = larger
  }

  #varint(value: number): void {
    let rest = value
    while (rest >= 0x80) {
      this.#buffer[this.#at++] = (rest % 0x80) | 0x80
      rest = Math.floor(rest / 0x80)
    }
    this.#buffer[this.#at++] = rest
  }

  #big(value: bigint): void {
    const low = Number(BigInt.asUintN(LOW_BITS, value))
    const high = Number(BigInt.asUintN(64, value) >> LOW_BITS_BIG)
    if (high === 0) return this.#varint(low)
    let rest = low
    for (let bits = 0; bits < LOW_BITS; bits += 7) {
      this.#buffer[this.#at++] = (rest % 0x80) | 0x80
      rest = Math.floor(rest / 0x80)
    }
    this.#varint(high)
  }
}

/** Reads the fields of one message in turn. */
export class Reader {
  readonly #buffer: Buffer
  readonly #end: number
  #at: number
  #wire = 0

  constructor(buffer: Buffer, at = 0, end: number = buffer.length) {
    this.#buffer = buffer
    this.#at = at
    this.#end = end
  }

  /** The number of the next field, or 0 at the end. What it holds must then be read or skipped. */
  next(): number {
    if (this.#at >= this.#end) return 0
    const tag = this.number()
    this.#wire = tag & 7
    return tag >>> 3
  }

  /** A number that is known to be small (below 2^53). */
  number(): number {
    let value = 0
    let scale = 1
    for (;;) {
      const byte = this.#byte()
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
      scale *= 0x80
    }
  }

  /** An int64. */
  big(): bigint {
    let low = 0
    let scale = 1
    for (let bits = 0; bits < LOW_BITS; bits += 7) {
      const byte = this.#byte()
      low += (byte & 0x7f) * scale
      if (byte < 0x80) return BigInt(low)
      scale *= 0x80
    }
    return BigInt.asIntN(64, (BigInt(this.number()) << LOW_BITS_BIG) | BigInt(low))
  }

  binary(): string {
    const length = this.number()
    const start = this.#take(length)
    return this.#buffer.toString('latin1', start, start + length)
  }

  text(): string {
    const length = this.number()
    const start = this.#take(length)
    return this.#buffer.toString('utf8', start, start + length)
  }

  message(): Reader {
    const length = this.number()
    const start = this.#take(length)
    return new Reader(this.#buffer, start, start + length)
  }

  /** Passes over a field that nobody asked for: a newer server may send more than we know. */
  skip(): void {
    if (this.#wire === 0) while (this.#byte() >= 0x80);
    else if (this.#wire === 1) this.#take(8)
    else if (this.#wire === 2) this.#take(this.number())
    else if (this.#wire === 5) this.#take(4)
    else throw new RangeError(`unknown wire type ${this.#wire}`)
  }

  #byte(): number {
    const at = this.#take(1)
    return this.#buffer[at]!
  }

  #take(length: number): number {
    const start = this.#at
    this.#at += length
    if (this.#at > this.#end) throw new RangeError('the message ends too early')
    return start
  }
}
