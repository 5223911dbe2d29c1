/** HPACK (RFC 7541), as far as a client needs it that sends the same few headers again and again. */

export type Fields = Map<string, string>

/** The fields that both sides know from the start, numbered from 1. */
const KNOWN: readonly (readonly [string, string])[] = (
  ':authority|:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https|:status 200|:status 204|' +
  ':status 206|:status 304|:status 400|:status 404|:status 500|accept-charset|accept-encoding gzip, deflate|' +
  'accept-language|accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control|' +
  'content-disposition|content-encoding|content-language|content-length|content-location|content-range|content-type|' +
  'cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|' +
  'last-modified|link|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|' +
  'server|set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate'
)
  .split('|')
  .map((text) => {
    const space = text.indexOf(' ')
    return space < 0 ? [text, ''] : [text.slice(0, space), text.slice(space + 1)]
  })

/** How many bytes of fields the other side may ask us to remember, and what a field counts beside its text. */
const REMEMBERED_BYTES = 4_096
const FIELD_BYTES = 32

/** A request's head: literal fields, which nobody has to remember. */
export function encodeFields(fields: Iterable<readonly [name: string, value: string]>): Buffer {
  const parts: Buffer[] = []
  for (const [name, value] of fields) parts.push(Buffer.from([0]), literal(name), literal(value))
  return Buffer.concat(parts)
}

function literal(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  const length: number[] = []
  let rest = bytes.length
  if (rest < 0x7f) length.push(rest)
  else {
    length.push(0x7f)
    for (rest -= 0x7f; rest >= 0x80; rest >>= 7) length.push((rest & 0x7f) | 0x80)
    length.push(rest)
  }
  return Buffer.concat([Buffer.from(length), bytes])
}

/** Reads the heads that one connection receives, in the order in which they arrive: each may build on those before. */
export class FieldReader {
  readonly #remembered: (readonly [string, string])[] = []
  #bytes = 0
  #most = REMEMBERED_BYTES
  #block: Buffer = Buffer.alloc(0)
  #at = 0

  read(block: Buffer): Fields {
    this.#block = block
    this.#at = 0
    const fields: Fields = new Map()
    while (this.#at < block.length) {
      const first = block[this.#at]!
      if (first >= 0x80) {
        const [name, value] = this.#known(this.#number(7))
        fields.set(name, value)
      } else if (first >= 0x40) {
        const field = this.#literal(6)
        fields.set(field[0], field[1])
        this.#remember(field)
      } else if (first >= 0x20) {
        const most = this.#number(5)
        if (most > REMEMBERED_BYTES) throw new RangeError('more fields to remember than agreed')
        this.#most = most
        this.#forget()
      } else {
        const [name, value] = this.#literal(4)
        fields.set(name, value)
      }
    }
    return fields
  }

  #literal(bits: number): [string, string] {
    const index = this.#number(bits)
    return [index === 0 ? this.#text() : this.#known(index)[0], this.#text()]
  }

  #known(index: number): readonly [string, string] {
    const field = index <= KNOWN.length ? KNOWN[index - 1] : this.#remembered[index - KNOWN.length - 1]
    if (field === undefined) throw new RangeError(`there is no field ${index}`)
    return field
  }

  #remember(field: readonly [string, string]): void {
    this.#remembered.unshift(field)
    this.#bytes += field[0].length + field[1].length + FIELD_BYTES
    this.#forget()
  }

  #forget(): void {
    while (this.#bytes > this.#most) {
      const [name, value] = this.#remembered.pop()!
      this.#bytes -= name.length + value.length + FIELD_BYTES
    }
  }

  /** A number that begins in the lower bits of the next byte. */
  #number(bits: number): number {
    const most = (1 << bits) - 1
    let value = this.#byte() & most
    if (value < most) return value
    for (let shift = 0; ; shift += 7) {
      const byte = this.#byte()
      value += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) return value
      if (shift > 28) throw new RangeError('a number is too large')
    }
  }

  #text(): string {
    const isHuffman = this.#block[this.#at]! >= 0x80
    const length = this.#number(7)
    const end = this.#at + length
    if (end > this.#block.length) throw new RangeError('the head ends too early')
    const bytes = this.#block.subarray(this.#at, end)
    this.#at = end
    return isHuffman ? fromHuffman(bytes) : bytes.toString('latin1')
  }

  #byte(): number {
    const byte = this.#block[this.#at]
    if (byte === undefined) throw new RangeError('the head ends too early')
    this.#at += 1
    return byte
  }
}

/** How many bits each byte's code has (and, at the end, that of the end itself), as digits of base 36. */
const CODE_BITS =
  'dnsssssssoussussssssssusssssssss6aacd68baa8b8666555666666678f6cad67777777777777777777777878djde6f565' +
  '65666577666567655677777fbedskmkkmmmnmnnnnnonoomnonnnnlmnmnnomlkmmnnlnmmolmnnllmlnmnnkmmmnmmnqqkjmnmp' +
  'qqqrrqopjlqrrqrollqqsrrrkoklmllnmmppooqnqrqqrrrrrsrrrrrqu'
const LONGEST_CODE = 30

/** The bytes by the length of their code. The codes of one length are consecutive numbers, in the order of the bytes. */
const BY_LENGTH: readonly (readonly number[])[] = Array.from({ length: LONGEST_CODE + 1 }, (_, length) =>
  CODE_BITS.split('').flatMap((digit, byte) => (Number.parseInt(digit, 36) === length ? [byte] : [])),
)

function fromHuffman(bytes: Buffer): string {
  let text = ''
  let code = 0
  let first = 0
  let length = 0
  for (const byte of bytes) {
    for (let bit = 7; bit >= 0; bit -= 1) {
      code = (code << 1) | ((byte >> bit) & 1)
      first <<= 1
      length += 1
      const coded = BY_LENGTH[length]
      if (coded === undefined) throw new RangeError('a text has no such code')
      const found = coded[code - first]
      if (found === undefined) {
        first += coded.length
        continue
      }
      text += String.fromCharCode(found)
      code = first = length = 0
    }
  }
  // What is left over is the beginning of the end's code: ones.
  if (length > 7 || code !== (1 << length) - 1) throw new RangeError('a text ends within a code')
  return text
}
