import type { Kind, LineKey } from '../../core/line.js'

/** A stretch of keys: from `key` up to, but without, `end`. */
export interface Stretch {
  readonly key: string
  readonly end: string
}

const SPECIAL: Record<Exclude<Kind, 'mutex'>, string> = { rw: '%rw/', semaphore: '%sem/' }

/**
 * Where everything lies, below the prefix:
 *
 *     NAME/<slot>                            a mutex's ticket, beside those of etcdctl and Go's concurrency.Mutex
 *     %rw/NAME/w/<slot>  %rw/NAME/r/<slot>   a writer's, a reader's
 *     %sem/NAME/<slot>.<weight>.<capacity>   a semaphore's: its weight can be read without its value
 *     %gone/<id>                             the tombstone of a ticket
 *     %inbox/<client>                        the id of a ticket that somebody took from this client
 *
 * A slot is a client's (see slots.ts); the id of the ticket that stands there is in the value.
 *
 * In NAME a slash is written %2F and a percent sign %25. Otherwise the line `a` (all keys below `a/`)
 * would hold the tickets of the line `a/b`; and so no name begins with one of the special words.
 */
export class Keys {
  readonly prefix: string

  constructor(prefix: string) {
    this.prefix = Buffer.from(prefix, 'utf8').toString('latin1')
  }

  line(line: LineKey): Stretch {
    return below(`${this.kind(line.kind)}${encodeName(line.name)}/`)
  }

  /** The writers of a read-write lock's line. */
  writers(line: LineKey): Stretch {
    return below(`${this.line(line).key}w/`)
  }

  /** What goes before and after the slot in a ticket's key. */
  shape(line: LineKey, weight: number, capacity: number): { stem: string; ending: string } {
    const { key } = this.line(line)
    if (line.kind === 'mutex') return { stem: key, ending: '' }
    if (line.kind === 'rw') return { stem: `${key}${weight === capacity ? 'w' : 'r'}/`, ending: '' }
    return { stem: key, ending: `.${weight}.${capacity}` }
  }

  tombstone(id: string): string {
    return `${this.prefix}%gone/${id}`
  }

  inbox(client: string): string {
    return `${this.prefix}%inbox/${encodeName(client)}`
  }

  kind(kind: Kind): string {
    return this.prefix + (kind === 'mutex' ? '' : SPECIAL[kind])
  }

  /** All keys of the lines of one kind whose name begins so. Among a mutex's there are others: `nameOf` tells. */
  named(kind: Kind, namePrefix: string): Stretch {
    return below(this.kind(kind) + encodeName(namePrefix))
  }

  /** The name in a key of this kind; undefined where it is not the key of a ticket. */
  nameOf(kind: Kind, key: string): string | undefined {
    const rest = key.slice(this.kind(kind).length)
    const slash = rest.indexOf('/')
    if (slash <= 0) return undefined
    return decodeName(rest.slice(0, slash))
  }

  /** What stands after the line's own part of a key: for another program's ticket the only name it has. */
  rest(line: LineKey, key: string): string {
    return key.slice(this.line(line).key.length)
  }
}

/** Weight and capacity in the key of a semaphore's ticket. */
export function weightOf(key: string): { weight: number; capacity: number } {
  const parts = key.slice(key.lastIndexOf('/') + 1).split('.')
  return { weight: countIn(parts[1]), capacity: countIn(parts[2]) }
}

/** A key that somebody else put there says anything: it counts as one, so that no sum is lost in it. */
function countIn(part: string | undefined): number {
  const count = Number(part)
  return Number.isSafeInteger(count) && count > 0 ? count : 1
}

/** All keys that begin so. */
function below(prefix: string): Stretch {
  const last = prefix.length - 1
  // To an empty prefix, and after the last byte there is, everything: etcd writes that as one zero byte.
  if (last < 0 || prefix.charCodeAt(last) === 0xff) return { key: prefix === '' ? '\0' : prefix, end: '\0' }
  return { key: prefix, end: prefix.slice(0, last) + String.fromCharCode(prefix.charCodeAt(last) + 1) }
}

function encodeName(name: string): string {
  return Buffer.from(name, 'utf8').toString('latin1').replace(/%/g, '%25').replace(/\//g, '%2F')
}

/** Undefined for what `encodeName` never makes: the special words. */
function decodeName(text: string): string | undefined {
  if (/%(?!25|2F)/.test(text)) return undefined
  return Buffer.from(text.replace(/%2F/g, '/').replace(/%25/g, '%'), 'latin1').toString('utf8')
}
