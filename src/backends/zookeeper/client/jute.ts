/**
 * Jute: ZooKeeper's encoding. Big-endian numbers; texts, buffers and vectors carry their length before
 * them, and -1 stands for null.
 */

/** Writes one packet, its four bytes of length included. */
export class Writer {
  #bytes: Buffer = Buffer.allocUnsafe(256)
  #at = 4

  int(value: number): this {
    this.#room(4)
    this.#at = this.#bytes.writeInt32BE(value, this.#at)
    return this
  }

  long(value: bigint): this {
    this.#room(8)
    this.#at = this.#bytes.writeBigInt64BE(value, this.#at)
    return this
  }

  bool(value: boolean): this {
    this.#room(1)
    this.#bytes[this.#at++] = value ? 1 : 0
    return this
  }

  text(value: string): this {
    // At most three bytes of UTF-8 a code unit, so one pass is enough.
    this.#room(4 + value.length * 3)
    const length = this.#bytes.write(value, this.#at + 4, 'utf8')
    this.#bytes.writeInt32BE(length, this.#at)
    this.#at += 4 + length
    return this
  }

  buffer(value: Uint8Array): this {
    this.#room(4 + value.length)
    this.#at = this.#bytes.writeInt32BE(value.length, this.#at)
    this.#bytes.set(value, this.#at)
    this.#at += value.length
    return this
  }

  vector<T>(values: readonly T[], write: (value: T) => void): this {
    this.int(values.length)
    for (const value of values) write(value)
    return this
  }

  /** The packet. The writer is not to be used again. */
  packet(): Buffer {
    this.#bytes.writeInt32BE(this.#at - 4, 0)
    return this.#bytes.subarray(0, this.#at)
  }

  #room(more: number): void {
    if (this.#at + more <= this.#bytes.length) return
    const grown = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#at + more))
    this.#bytes.copy(grown, 0, 0, this.#at)
    this.#bytes = grown
  }
}

/** Reads one packet, without its length. Throws a RangeError when it is shorter than it says. */
export class Reader {
  readonly #bytes: Buffer
  readonly #end: number
  #at: number

  /** The packet is what stands from `start` to `end`: nothing is copied. */
  constructor(bytes: Buffer, start: number = 0, end: number = bytes.length) {
    this.#bytes = bytes
    this.#at = start
    this.#end = end
  }

  /** Bytes that were not read yet. */
  get left(): number {
    return this.#end - this.#at
  }

  int(): number {
    return this.#bytes.readInt32BE(this.skip(4))
  }

  long(): bigint {
    return this.#bytes.readBigInt64BE(this.skip(8))
  }

  bool(): boolean {
    return this.#bytes.readUInt8(this.skip(1)) !== 0
  }

  text(): string {
    const length = this.int()
    if (length <= 0) return ''
    const start = this.skip(length)
    return this.#bytes.toString('utf8', start, start + length)
  }

  buffer(): Buffer {
    const length = this.int()
    if (length <= 0) return Buffer.alloc(0)
    const start = this.skip(length)
    return this.#bytes.subarray(start, start + length)
  }

  vector<T>(read: () => T): T[] {
    const values: T[] = []
    for (let left = this.int(); left > 0; left -= 1) values.push(read())
    return values
  }

  /** Goes on behind so many bytes; where they began. */
  skip(bytes: number): number {
    const start = this.#at
    if (bytes > this.#end - start) throw new RangeError('A ZooKeeper packet is shorter than it says.')
    this.#at = start + bytes
    return start
  }
}
