import type { JoinRequest, LeaveRequest, RenewRequest, Standing } from '../../core/backend.js'
import { BackendError } from '../../core/errors.js'
import { itemFailure } from './failure.js'
import { holderText } from './ticket.js'

/** How requests become arguments of the scripts, and their replies answers. The scripts say what each is. */

function letter(kind: string): string {
  return kind === 'mutex' ? 'm' : 'c'
}

/** `before`: the request before this one in the call; `drop`: ids of tickets that a takeover is to drop. */
export function joinItem(request: JoinRequest, before: JoinRequest | undefined, drop: readonly string[]): string {
  const { line, id, weight, capacity, wait, ttlMs, waitTtlMs, group, floor, holder } = request
  // In this order: the text of the one before is mostly the one at hand already.
  const earlier = before === undefined ? undefined : holderText(before.holder)
  const text = holderText(holder)
  // Joined, not concatenated: what is sent is one flat text, where `+` makes a tree that must be flattened later.
  return [
    letter(line.kind),
    wait ? 'w' : '-',
    whole(ttlMs),
    whole(waitTtlMs),
    floor ?? '-',
    group === undefined ? '-' : encodeURIComponent(group),
    id,
    weight,
    capacity,
    drop.length === 0 ? '-' : drop.join(','),
    text === earlier ? '' : text,
  ].join(' ')
}

/** `inbox`: the channel of whoever takes the ticket over, should it change hands. */
export function renewItem(request: RenewRequest, inbox: string): string {
  const { line, id, handle, nextHandle, nextHolder, floor } = request
  const item = `${letter(line.kind)} ${whole(request.ttlMs)} ${whole(request.waitTtlMs)} ${id} ${handleText(id, handle)}`
  if (nextHandle !== undefined && nextHolder !== undefined) {
    return `${item} ${floor ?? '-'} ${handleText(id, nextHandle)} ${inbox} ${holderText(nextHolder)}`
  }
  return floor === undefined ? item : `${item} ${floor} - - -`
}

export function leaveItem({ line, id, handle, keepMs, tombstoneMs }: LeaveRequest): string {
  const whose = handle === undefined ? '-' : handleText(id, handle)
  return [letter(line.kind), whole(keepMs), whole(tombstoneMs), id, whose].join(' ')
}

export function standing(answer: string, lease: { ttlMs: number; waitTtlMs: number }, doing: string): Standing {
  switch (answer.charAt(0)) {
    case 'g':
      return { state: 'granted', order: BigInt(answer.slice(1)), ttlMs: Math.ceil(lease.ttlMs) }
    case 'w': {
      const [ahead, look] = answer.slice(1).split(' ')
      return { state: 'waiting', ahead: Number(ahead), ttlMs: Math.ceil(lease.waitTtlMs), lookAgainMs: Number(look) }
    }
    case 'r':
      return { state: 'refused' }
    case 'x':
      return { state: 'gone' }
    default:
      return { state: 'failed', error: itemFailure(answer.slice(1), doing) }
  }
}

export function farewell(answer: string): boolean | BackendError {
  if (answer === '1') return true
  return answer === '0' ? false : itemFailure(answer.slice(1), 'leave a line')
}

/** Mostly the id itself, which need not be sent twice. */
function handleText(id: string, handle: string): string {
  return handle === id ? '=' : handle
}

/** Redis counts whole milliseconds, at least one. */
function whole(ms: number): number {
  return Math.ceil(ms)
}
