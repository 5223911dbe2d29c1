/**
 * The grant rule, put as questions to etcd: what to compare before a put, what to read to know where a
 * ticket stands, and which key to watch while it waits. None of it grows with the number of waiters.
 */
import { grantedCount, type LineKey } from '../../core/line.js'
import { type Keys, type Stretch, weightOf } from './keys.js'
import type { Compare, KeyValue, OpAnswer, RangeAnswer, RangeOp } from './txn.js'

/** Where a ticket stands, and what to wait for when it waits. */
export type Place = { readonly granted: true } | Waiting

export interface Waiting {
  readonly granted: false
  readonly ahead: number
  readonly watch: WatchOn
  /** As long as this key is unchanged it waits. Undefined where more than one key matters. */
  readonly behind?: Pick<KeyValue, 'key' | 'create' | 'mod'>
  /** Who stood before the last one before it; undefined: nobody, or it does not matter (a semaphore). */
  readonly second?: Second | undefined
}

/** The second before a ticket. */
export interface Second extends Pick<KeyValue, 'key' | 'create'> {
  /** When the one before that joined; 0: there was none. */
  readonly third: bigint
}

export interface WatchOn {
  readonly key: string
  readonly rangeEnd?: string
  readonly deletesOnly: boolean
}

interface Asking {
  readonly line: LineKey
  readonly key: string
  readonly weight: number
  readonly capacity: number
}

/** More tickets of a semaphore than this cannot be granted before one of this capacity (none weighs less than 1). */
function mostAhead(capacity: number): number {
  // With a floor, for a line whose other clients were told a larger capacity.
  return Math.max(64, capacity) + 1
}

function isRead({ line, weight, capacity }: Asking): boolean {
  return line.kind === 'rw' && weight !== capacity
}

/** The keys that can keep this ticket waiting: for a reader the writers, for all others the whole line. */
export function rivals(keys: Keys, ticket: Asking): Stretch {
  return isRead(ticket) ? keys.writers(ticket.line) : keys.line(ticket.line)
}

/** True where nothing can keep the ticket waiting. (For a semaphore that is not the only case.) */
export function noRivals(keys: Keys, ticket: Asking): Compare {
  const { key, end } = rivals(keys, ticket)
  return { key, rangeEnd: end, target: 'create', is: '=', value: 0 }
}

/** True where nobody joined after the reading of that revision: those who stood then can only have left. */
export function noNewRivals(keys: Keys, ticket: Asking, revision: bigint): Compare {
  const { key, end } = rivals(keys, ticket)
  return { key, rangeEnd: end, target: 'create', is: '<', value: revision + 1n }
}

/**
 * What to read to place a ticket: one that was put in this very Txn or stands nowhere yet (`create` undefined),
 * or one that stands since revision `create`.
 */
export function placeReads(keys: Keys, ticket: Asking, create?: bigint, serializable = false): RangeOp[] {
  const { key, end } = rivals(keys, ticket)
  const common = { op: 'range', key, rangeEnd: end, keysOnly: true, serializable } as const
  const before = create === undefined ? {} : { maxCreate: create - 1n }
  // The last three before it: without a revision to stop at, the ticket itself may be the first of these.
  const newest: RangeOp = { ...common, ...before, sort: 'newest', limit: 4 }
  if (ticket.line.kind !== 'semaphore') return [newest]
  return [newest, { ...common, ...before, sort: 'oldest', limit: mostAhead(ticket.capacity) }]
}

/** Works out the place from what was read. */
export function placeFrom(keys: Keys, ticket: Asking, answers: readonly OpAnswer[]): Place {
  const newest = others(ticket, answers[0]?.range)
  const last = newest.kvs[0]
  if (last === undefined) return { granted: true }
  if (ticket.line.kind !== 'semaphore') {
    const watch = { key: last.key, deletesOnly: true }
    const [, second, third] = newest.kvs
    return {
      granted: false,
      ahead: newest.count,
      watch,
      behind: last,
      second: second === undefined ? undefined : { ...second, third: third?.create ?? 0n },
    }
  }
  const oldest = others(ticket, answers[1]?.range)
  const seen = oldest.kvs.map((kv) => weightOf(kv.key))
  const seesAll = oldest.kvs.some((kv) => kv.key === last.key)
  const granted = grantedCount([...seen, ticket])
  if (seesAll && granted === seen.length + 1) return { granted: true }
  if (seesAll && granted === seen.length) {
    // The first to wait: whoever leaves the line may make room for it, so it alone watches the whole line.
    const { key, end } = keys.line(ticket.line)
    return { granted: false, ahead: oldest.kvs.length, watch: { key, rangeEnd: end, deletesOnly: true } }
  }
  // All others wait to become the first: the one before leaves, or is granted and put under its hold's lease.
  // Near the head a renewal looks by itself: the one before may be granted and not have been put yet.
  const watch = { key: last.key, deletesOnly: false }
  return { granted: false, ahead: newest.count, watch, ...(seesAll ? {} : { behind: last }) }
}

/** The end of the last one before a ticket, and what is known of those before that one. */
interface End {
  readonly ended: Pick<KeyValue, 'create'>
  /** Who stood before it; undefined: nobody. */
  readonly second: Pick<KeyValue, 'create'> | undefined
  /** Nobody stands in the line who joined at this revision or before. */
  readonly emptyTo: bigint
}

/** Whether that end grants the ticket at once: nobody stood before the one that ended, and nobody stands between. */
export function endGrants({ ended, second, emptyTo }: End): boolean {
  return second === undefined || second.create <= emptyTo || ended.create <= emptyTo + 1n
}

/** A reading without the ticket itself. */
function others(ticket: Asking, range: RangeAnswer | undefined): RangeAnswer {
  if (range === undefined) return { kvs: [], count: 0 }
  const kvs = range.kvs.filter((kv) => kv.key !== ticket.key)
  // The count takes no heed of revisions, so for a ticket that has stood for a while it is an upper bound.
  return { kvs, count: Math.max(kvs.length, range.count - (isRead(ticket) ? 0 : 1)) }
}
