import type { Row, Rows } from './rows.js'

/** One packet of the server's, as mysql2 hands it to the command that is under way. */
export interface Packet {
  readonly buffer: Buffer
  readonly offset: number
  readonly end: number
  asError(encoding: string): Error
}

/** What mysql2 runs: its own queries are such commands too. */
export interface Command {
  /** Called without a packet when it is this command's turn; true when it has heard all. */
  execute(packet: Packet | undefined, connection: Asked): boolean
  /** Called when the connection is lost. */
  onResult(error: Error): void
  /** Asked for where mysql2 was told to write down what it does. */
  stateName(): string
}

/** What a question needs of the connection that it is asked on. */
export interface Asked {
  readonly config: { readonly clientFlags: number }
  readonly serverCapabilityFlags?: number
  readonly clientEncoding: string
  addCommand(command: Command): void
  writePacket(packet: { buffer: Buffer; length(): number; writeHeader(sequenceId: number): void }): void
  _resetSequenceId(): void
}

/** Whether the connection has all that: another version of mysql2 may not, and then is asked by its own query. */
export function canAsk(connection: Partial<Asked>): connection is Asked {
  const { config, serverCapabilityFlags = 0 } = connection
  return (
    typeof connection.addCommand === 'function' &&
    typeof connection.writePacket === 'function' &&
    typeof connection._resetSequenceId === 'function' &&
    typeof config?.clientFlags === 'number' &&
    (config.clientFlags & serverCapabilityFlags & DEPRECATE_EOF) === 0
  )
}

export type Done = (error: Error | null, results: Rows[]) => void

const QUERY = 0x03
const OK = 0x00
const ERROR = 0xff
const EOF = 0xfe
const NULL = 0xfb
const MORE_RESULTS = 0x0008
const QUERY_ATTRIBUTES = 0x0800_0000
/** Without the packets that end columns and rows, as they are read here. */
const DEPRECATE_EOF = 0x0100_0000

/**
 * A question in mysql2's queue, beside those of mysql2 itself. Its own reads the description of every column, makes a
 * parser for them and an object of every value, and looks for placeholders in the text: half of what a small call costs
 * this process. Here the descriptions are skipped, and a value is its text.
 */
export class Question implements Command {
  readonly #sql: string
  readonly #done: Done
  readonly #results: Rows[] = []
  #rows: Row[] = []
  #expects: 'header' | 'columns' | 'rows' = 'header'
  #columns = 0

  constructor(sql: string, done: Done) {
    this.#sql = sql
    this.#done = done
  }

  execute(packet: Packet | undefined, connection: Asked): boolean {
    if (packet === undefined) {
      connection._resetSequenceId()
      connection.writePacket(questionPacket(this.#sql, connection))
      return false
    }
    if (packet.buffer[packet.offset] === ERROR) {
      this.#done(packet.asError(connection.clientEncoding), [])
      return true
    }
    const over = this.#read(packet)
    if (over) this.#done(null, this.#results)
    return over
  }

  onResult(error: Error): void {
    this.#done(error, [])
  }

  stateName(): string {
    return this.#expects
  }

  #read(packet: Packet): boolean {
    const { buffer, offset, end } = packet
    if (this.#expects === 'rows') {
      if (!isEof(packet)) {
        this.#rows.push(readRow(buffer, offset, end))
        return false
      }
      this.#results.push(this.#rows)
      this.#expects = 'header'
      return (buffer.readUInt16LE(offset + 3) & MORE_RESULTS) === 0
    }
    if (this.#expects === 'columns') {
      // Their descriptions, and a packet that says that they are over.
      this.#columns -= 1
      if (this.#columns < 0) this.#expects = 'rows'
      return false
    }
    if (buffer[offset] !== OK) {
      this.#columns = readLength(buffer, offset)[0]
      this.#rows = []
      this.#expects = 'columns'
      return false
    }
    const [affectedRows, afterAffected] = readLength(buffer, offset + 1)
    const [, afterId] = readLength(buffer, afterAffected)
    this.#results.push(Object.assign([], { affectedRows }))
    return (buffer.readUInt16LE(afterId) & MORE_RESULTS) === 0
  }
}

/** The text is ASCII: what is not goes into it as hexadecimal. */
function questionPacket(sql: string, { config, serverCapabilityFlags = 0 }: Asked) {
  const attributes = (config.clientFlags & serverCapabilityFlags & QUERY_ATTRIBUTES) !== 0
  const start = attributes ? 7 : 5
  const buffer = Buffer.allocUnsafe(start + sql.length)
  buffer[4] = QUERY
  if (attributes) {
    // None, in one set.
    buffer[5] = 0
    buffer[6] = 1
  }
  buffer.write(sql, start, 'latin1')
  return {
    buffer,
    length: () => buffer.length,
    writeHeader(sequenceId: number) {
      buffer.writeUIntLE(buffer.length - 4, 0, 3)
      buffer[3] = sequenceId
    },
  }
}

function isEof({ buffer, offset, end }: Packet): boolean {
  return buffer[offset] === EOF && end - offset < 9
}

/** A number of one to nine bytes, and where the next thing begins. */
function readLength(buffer: Buffer, at: number): [number, number] {
  const first = buffer[at]!
  if (first < NULL) return [first, at + 1]
  if (first === 0xfc) return [buffer.readUInt16LE(at + 1), at + 3]
  if (first === 0xfd) return [buffer.readUIntLE(at + 1, 3), at + 4]
  return [Number(buffer.readBigUInt64LE(at + 1)), at + 9]
}

function readRow(buffer: Buffer, offset: number, end: number): Row {
  const row: (string | null)[] = []
  for (let at = offset; at < end; ) {
    const first = buffer[at]!
    if (first === NULL) {
      row.push(null)
      at += 1
    } else {
      let length = first
      let from = at + 1
      if (first > NULL) [length, from] = readLength(buffer, at)
      at = from + length
      row.push(buffer.toString('utf8', from, at))
    }
  }
  return row
}
