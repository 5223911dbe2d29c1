import type { JoinRequest } from '../../core/backend.js'
import type { Kind, LineKey } from '../../core/line.js'
import { RW_CAPACITY } from '../../core/line.js'
import { ConfigError } from '../../core/errors.js'

/** What the grant rule needs to know of a node; all of it is in its name, so that one list of names is a line. */
export interface Node {
  readonly name: string
  /** As the server numbered it within its parent. Wraps around after 2^31 changes of that parent. */
  readonly seq: number
  readonly weight: number
  readonly capacity: number
  /** The ticket's id, or the whole name of a node that somebody else made. */
  readonly id: string
}

/** The parts of the path below which everything stands. */
export interface Places {
  /** Below it, a folder a kind. */
  readonly base: string
  /** Mutexes and read-write locks stand below this path instead, by their plain names, as Curator has them. */
  readonly curator?: string
}

/** The path of a line: the parent of its tickets. */
export function linePath(places: Places, line: LineKey): string {
  if (places.curator !== undefined && line.kind !== 'semaphore') return join(places.curator, checkShared(line.name))
  return `${kindPath(places, line.kind)}/${encodeSegment(line.name)}`
}

export function kindPath(places: Places, kind: Kind): string {
  return join(places.base, kind)
}

function join(path: string, segment: string): string {
  return path === '/' ? `/${segment}` : `${path}/${segment}`
}

/** Every name as one segment of a path, readable where it can be: 'a/b c' is 'a%2Fb%20c'. */
export function encodeSegment(name: string): string {
  if (name === '.' || name === '..') return name.replaceAll('.', '%2E')
  return name.replaceAll(/[^!-$&-.0-~]+/gu, (text) =>
    Array.from(Buffer.from(text, 'utf8'), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  )
}

/** The name that a segment stands for; undefined when it is not one of ours. */
export function decodeSegment(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

// ZooKeeper's own rule for paths. Nothing is escaped here: the other side would not know.
// oxlint-disable-next-line no-control-regex
const REFUSED = /[\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]/

function checkShared(name: string): string {
  const wrong = name.split('/').some((segment) => segment === '' || segment === '.' || segment === '..')
  if (wrong || REFUSED.test(name)) {
    throw new ConfigError(
      `The name ${JSON.stringify(name)} is not a path that ZooKeeper can keep, so it cannot be shared with Curator.`,
    )
  }
  return name
}

/** The start of a ticket's node name; the server puts ten digits behind it. */
export function nodePrefix(kind: Kind, id: string, weight: number, capacity: number): string {
  if (kind === 'mutex') return `_c_${id}-lock-`
  if (kind === 'rw') return weight === RW_CAPACITY ? `_c_${id}-__WRIT__` : `_c_${id}-__READ__`
  return `_c_${id}-permits-${weight}-${capacity}-`
}

/** The node that was created for a request: all but its number was known before. */
export function ownNode(
  { line, id, weight, capacity }: Pick<JoinRequest, 'line' | 'id' | 'weight' | 'capacity'>,
  name: string,
): Node {
  return { name, seq: Number(name.slice(nodePrefix(line.kind, id, weight, capacity).length)), weight, capacity, id }
}

const NODE = /^(.*)(lock-|__WRIT__|__READ__|__lock__|__rlock__|permits-(\d+)-(\d+)-)(-?\d{10})$/s

/**
 * Reads a node's name. Curator's (`_c_<uuid>-lock-…`, `lock-…`, `__READ__`, `__WRIT__`) and kazoo's
 * (`__lock__`, `__rlock__`) count like ours, for they are numbered by the same parent; anything else is
 * not a ticket, and undefined.
 */
export function parseNode(kind: Kind, name: string): Node | undefined {
  const match = NODE.exec(name)
  if (match === null) return undefined
  const [, prefix = '', what = '', permits, total, digits] = match
  const seq = Number(digits)
  const id = /^_c_(.+)-$/s.exec(prefix)?.[1] ?? name
  if (kind === 'semaphore') {
    if (permits === undefined) return undefined
    return { name, seq, id, weight: Number(permits), capacity: Number(total) }
  }
  if (permits !== undefined) return undefined
  if (kind === 'mutex') return { name, seq, id, weight: 1, capacity: 1 }
  const read = what === '__READ__' || what === '__rlock__'
  return { name, seq, id, weight: read ? 1 : RW_CAPACITY, capacity: RW_CAPACITY }
}

/** The order of two nodes of one parent, right also where the number wraps from 2147483647 to -2147483648. */
export function bySeq(a: Pick<Node, 'seq'>, b: Pick<Node, 'seq'>): number {
  return (a.seq - b.seq) | 0
}
