import { createHash } from 'node:crypto'
import { ConfigError } from '../../core/errors.js'
import { KINDS, type LineKey } from '../../core/line.js'
import type { Address } from './client/connection.js'
import type { Entry } from './line-value.js'

/** memcached takes keys of at most 250 bytes, without spaces and control characters. */
const PLAIN = /^[\x21-\x7e]{1,160}$/
const PRINTABLE = /^[\x21-\x7e]+$/
const PREFIX = /^[\x21-\x7e]{0,60}$/

/** The names of everything that we keep in a server. */
export class Keys {
  readonly #prefix: string
  /** The part of the prefix that no encoding changes. */
  readonly #start: string

  constructor(prefix: string) {
    if (!PREFIX.test(prefix)) {
      throw new ConfigError('The prefix for memcached is at most 60 printable ASCII characters without spaces.')
    }
    this.#prefix = prefix
    this.#start = /^[A-Za-z0-9]*/.exec(prefix)![0]
  }

  /** The line itself. A name that memcached would refuse is hashed; the value holds it in full. */
  line({ kind, name }: LineKey): string {
    if (PLAIN.test(name)) return `${this.#prefix}line:${kind}:${name}`
    return `${this.#prefix}hash:${kind}:${createHash('sha256').update(name).digest('base64url')}`
  }

  /** Lives as long as the ticket of this handle does; holds who stands behind it. */
  ticket(handle: string): string {
    return `${this.#prefix}ticket:${handle}`
  }

  /** Lives as long as a ticket that has left keeps others out. Another key: a late renewal must not extend it. */
  kept(id: string): string {
    return `${this.#prefix}kept:${id}`
  }

  tombstone(id: string): string {
    return `${this.#prefix}gone:${id}`
  }

  /** The key by which others see whether an entry lives. */
  life(entry: Entry): string {
    return entry.left ? this.kept(entry.id) : this.ticket(entry.handle)
  }

  /** The key of a line, as the server's list has it (URI-encoded); undefined for keys that are not lines of ours. */
  lineFrom(listed: string): string | undefined {
    // Most keys are somebody else's, and there may be millions.
    if (!listed.startsWith(this.#start)) return undefined
    // Byte by byte: theirs may be of any bytes, ours are of ASCII only.
    const key = listed.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    const isLine = KINDS.some(
      (kind) => key.startsWith(`${this.#prefix}line:${kind}:`) || key.startsWith(`${this.#prefix}hash:${kind}:`),
    )
    return isLine && PRINTABLE.test(key) ? key : undefined
  }
}

/**
 * Which of several servers keeps a name: the one whose hash with it is highest. Every client comes to the
 * same answer in whatever order it lists the servers, and one server more or less moves only its own names.
 */
export function serverFor(name: string, servers: readonly Address[]): number {
  if (servers.length === 1) return 0
  let best = 0
  let highest = ''
  for (const [index, { host, port }] of servers.entries()) {
    const score = createHash('sha256').update(`${host}:${port} ${name}`).digest('hex')
    if (score <= highest) continue
    best = index
    highest = score
  }
  return best
}
