/** One reply of memcached, as the meta commands give it. */
export interface Reply {
  /** The first word: HD, VA, EN, NF, NS, EX, MN, VERSION, STORED, ERROR, CLIENT_ERROR, SERVER_ERROR … */
  readonly code: string
  /** The other words of the line: `c12`, `t30`. For VA without the length. */
  readonly words: readonly string[]
  /** The data that came with VA. */
  readonly value?: Buffer
}

/** The text after a flag in a reply: `flagOf(reply, 'c')` is '12' for `HD c12`. */
export function flagOf(reply: Reply, flag: string): string | undefined {
  return reply.words.find((word) => word.startsWith(flag))?.slice(1)
}

const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d

/** Takes bytes as they come and gives whole replies. */
export class ReplyParser {
  #bytes: Buffer = Buffer.alloc(0)

  /** The replies that are complete with these bytes. Throws when they cannot be replies: then nothing after them can be read. */
  push(bytes: Buffer): Reply[] {
    this.#bytes = this.#bytes.length === 0 ? bytes : Buffer.concat([this.#bytes, bytes])
    const replies: Reply[] = []
    for (let reply = this.#next(); reply !== undefined; reply = this.#next()) replies.push(reply)
    return replies
  }

  #next(): Reply | undefined {
    const end = this.#bytes.indexOf(LINE_FEED)
    if (end === -1) return undefined
    // The lines of the crawler's dump end without a carriage return.
    const textEnd = this.#bytes[end - 1] === CARRIAGE_RETURN ? end - 1 : end
    const [code = '', ...words] = this.#bytes.toString('utf8', 0, textEnd).split(' ')
    if (code !== 'VA') {
      this.#bytes = this.#bytes.subarray(end + 1)
      return { code, words }
    }
    const length = Number(words[0])
    if (!Number.isSafeInteger(length) || length < 0) throw new Error(`not a length in a reply: ${words[0]}`)
    const start = end + 1
    if (this.#bytes.length < start + length + 2) return undefined
    if (this.#bytes.toString('latin1', start + length, start + length + 2) !== '\r\n') {
      throw new Error('the data of a reply is longer than it says')
    }
    // A copy: the caller may keep it for longer than the bytes that it came in.
    const value = Buffer.from(this.#bytes.subarray(start, start + length))
    this.#bytes = this.#bytes.subarray(start + length + 2)
    return { code, words: words.slice(1), value }
  }
}
