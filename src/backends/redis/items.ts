import type { JoinRequest, LeaveRequest, RenewRequest, Standing } from '../../core/backend.js'
import { BackendError } from '../../core/errors.js'
import { itemFailure } from './failure.js'
import { holderText, ticketHead } from './ticket.js'

/** How requests become arguments of the scripts, and their replies answers. The scripts say what each is. */

function letter(kind: string): string {
  return kind === 'mutex' ? 'm' : 'c'
}

/** `drop`: ids of tickets that a takeover is to drop. */
export function joinArguments(request: JoinRequest, inbox: string, drop: readonly string[]): string[] {
  const { line, id, weight, capacity, wait, ttlMs, waitTtlMs, group, floor } = request
  const dropped = drop.length === 0 ? '' : ` ${drop.join(' ')}`
  return [
    letter(line.kind) + (wait ? 'w' : '-'),
    ticketHead(request, inbox),
    ` ${holderText(request.holder)}`,
    whole(ttlMs),
    floor === undefined ? '' : String(floor),
    `${id} ${weight} ${capacity} ${whole(waitTtlMs)} ${group === undefined ? '-' : encodeURIComponent(group)}${dropped}`,
  ]
}

export function renewArguments(request: RenewRequest, inbox: string): string[] {
  const { line, id, handle, ttlMs, waitTtlMs, nextHandle, nextHolder, floor } = request
  let change = ''
  if (nextHandle !== undefined && nextHolder !== undefined) {
    change = `${floor ?? '-'} ${nextHandle} ${inbox} ${holderText(nextHolder)}`
  } else if (floor !== undefined) {
    change = `${floor} - - -`
  }
  return [letter(line.kind), `hf1 ${id} ${handle} `, whole(ttlMs), whole(waitTtlMs), change]
}

export function leaveArguments(request: LeaveRequest): string[] {
  const { line, id, handle, keepMs, tombstoneMs } = request
  return [letter(line.kind), `hf1 ${id} ${handle ?? '-'} `, `${whole(keepMs)} ${whole(tombstoneMs)}`]
}

export function standing(answer: string, lease: { ttlMs: number; waitTtlMs: number }, doing: string): Standing {
  switch (answer[0]) {
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

/** Redis counts whole milliseconds, at least one. */
function whole(ms: number): string {
  return String(Math.ceil(ms))
}
