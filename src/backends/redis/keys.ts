import { ConfigError } from '../../core/errors.js'
import type { Kind, LineKey } from '../../core/line.js'
import type { Words } from './words.js'

/** The keys of one line, as the scripts want them. All are in one slot. */
export interface LineKeys {
  readonly main: string
  readonly order: string
  readonly lease: string
  readonly tickets: string
  /** Somebody was found there not long ago. */
  crowded: boolean
  /** How the calls begin that take and give this mutex alone. */
  take: Words | undefined
  give: Words | undefined
  /** Where they are on a Cluster; 0 elsewhere. */
  readonly slot: number
}

const LETTERS: Readonly<Record<Kind, string>> = { mutex: 'm', rw: 'r', semaphore: 's' }
const SLOTS = 16_384
const REMEMBERED = 2_000

/**
 * Names every key. A mutex is at prefix + name; all others have a NUL after the prefix, which no name can
 * have, so that no name can be chosen to be one of them.
 */
export class Keys {
  readonly #prefix: string
  readonly #own: string
  readonly #cluster: boolean
  readonly #tagged: boolean
  readonly #onlyLast: string
  readonly #known: Readonly<Record<Kind, Map<string, LineKeys>>> = {
    mutex: new Map(),
    rw: new Map(),
    semaphore: new Map(),
  }

  /** `own`: what the client library puts before every key by itself; it takes part in the slot, but is not sent. */
  constructor(prefix: string, own: string, cluster: boolean) {
    const whole = own + prefix
    this.#tagged = /\{[^}]+\}/.test(whole.slice(Math.max(0, whole.indexOf('{'))))
    if (whole.includes('{') && !(this.#tagged && hashTag(whole) !== whole)) {
      throw new ConfigError("The prefix has a '{' but no hash tag such as '{locks}'. Leave the brace out, or close it.")
    }
    this.#prefix = prefix
    this.#own = own
    this.#cluster = cluster
    this.#onlyLast = `${prefix}\0last`
  }

  /** Names come back, and making their keys anew each time was a third of what a call cost the client. */
  of(line: LineKey): LineKeys {
    const known = this.#known[line.kind]
    let keys = known.get(line.name)
    if (keys === undefined) {
      keys = this.#make(line)
      if (known.size >= REMEMBERED) known.clear()
      known.set(line.name, keys)
    }
    return keys
  }

  /** Somebody waits for the mutex at this key, as a script names it. */
  crowd(main: string): void {
    const keys = this.#known.mutex.get(this.nameIn(main) ?? '')
    if (keys !== undefined) keys.crowded = true
  }

  #make(line: LineKey): LineKeys {
    const main = this.#prefix + line.name
    const slot = this.#cluster ? slotOf(this.#own + main) : 0
    const rest = `${LETTERS[line.kind]}:${line.name}`
    const start = `${this.#prefix}\0${this.#tag(slot)}`
    const order = `${start}o${rest}`
    // Only a mutex has a key that others can see; the place is kept, so that all lines have four.
    const first = line.kind === 'mutex' ? main : order
    const lease = `${start}l${rest}`
    const tickets = `${start}t${rest}`
    return {
      main: first,
      order,
      lease,
      tickets,
      crowded: false,
      take: undefined,
      give: undefined,
      slot,
    }
  }

  /** The last order given: one a server, one a slot on a Cluster. */
  last(slot: number): string {
    return this.#cluster ? `${this.#prefix}\0${this.#tag(slot)}last` : this.#onlyLast
  }

  /** Which run of the server has learnt a quorum's floor. */
  mark(): string {
    return `${this.#prefix}\0learnt`
  }

  /** The channel of a client's inbox. It stands in tickets, so it has no spaces. */
  channel(inbox: string): string {
    return `${(this.#own + this.#prefix).replace(/[\s%]/g, encodeURIComponent)}inbox:${inbox}`
  }

  /** Patterns of SCAN that match every key which tells of a line whose name starts so. */
  patterns(namePrefix: string): string[] {
    const whole = glob(this.#own + this.#prefix)
    return [`${whole}${glob(namePrefix)}*`, `${whole}\0*o[mrs]:${glob(namePrefix)}*`]
  }

  /** The name in a key found by SCAN; undefined for one that tells of no line. */
  nameIn(key: string): string | undefined {
    const rest = key.slice(this.#own.length + this.#prefix.length)
    if (!rest.startsWith('\0')) return rest
    return /^\0(?:\{[0-9a-z]+\})?o[mrs]:([^]+)$/.exec(rest)?.[1]
  }

  // A tag that is precomputed for the slot: one made of the name would break on names such as 'a}b' or 'a{}b'.
  #tag(slot: number): string {
    return this.#cluster && !this.#tagged ? `{${tagOf(slot)}}` : ''
  }
}

/** The Cluster slot of a key. */
export function slotOf(key: string): number {
  const bytes = Buffer.from(hashTag(key))
  let crc = 0
  for (const byte of bytes) crc = ((crc << 8) & 0xffff) ^ CRC16[((crc >> 8) ^ byte) & 0xff]!
  return crc % SLOTS
}

/** The part of a key that is hashed: between the first '{' and the first '}' after it, unless that is empty. */
function hashTag(key: string): string {
  const open = key.indexOf('{')
  if (open === -1) return key
  const close = key.indexOf('}', open + 1)
  return close === -1 || close === open + 1 ? key : key.slice(open + 1, close)
}

const CRC16 = Uint16Array.from({ length: 256 }, (_, i) => {
  let crc = i << 8
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  return crc & 0xffff
})

let tags: string[] | undefined

/** A short text that hashes to the slot. The table of all of them takes some 20 ms, once, on a Cluster only. */
function tagOf(slot: number): string {
  if (tags === undefined) {
    tags = []
    for (let i = 0, found = 0; found < SLOTS; i += 1) {
      const text = i.toString(36)
      const its = slotOf(text)
      if (tags[its] !== undefined) continue
      tags[its] = text
      found += 1
    }
  }
  return tags[slot]!
}

function glob(text: string): string {
  return text.replace(/[*?[\]\\^-]/g, '\\$&')
}
