import type { JoinRequest, LeaveRequest, RenewRequest, Standing } from '../../core/backend.js'
import { BackendError } from '../../core/errors.js'
import { itemFailure } from './failure.js'
import { isPlainJoin, isPlainLeave } from './one-mutex.js'
import { holderText } from './ticket.js'

/** How requests become arguments of the scripts, and their replies answers. The scripts say what each is. */

function letter(kind: string): string {
  return kind === 'mutex' ? 'm' : 'c'
}

/** What requests ask for alike is said once. The others' ids are all that is left of most, which keeps a call small. */
interface Shared {
  readonly ttlMs: number
  readonly waitTtlMs: number
  readonly text: string
  readonly floor: bigint | undefined
}

/** Mutexes that ask for the same, of the same holder. `channel`: where this client listens. */
export function addTakes(requests: readonly JoinRequest[], command: string[], channel: string): void {
  const { ttlMs, holder, floor } = requests[0]!
  command.push(whole(ttlMs), floor?.toString() ?? '', ` = 1 1 ${channel} `, ` ${holderText(holder)}`)
  for (const { id } of requests) command.push(id)
}

/** `channel`: where this client listens; `drops`: ids of tickets that a takeover is to drop. */
export function addJoins(
  requests: readonly JoinRequest[],
  command: string[],
  channel: string,
  drops: ReadonlyMap<JoinRequest, readonly string[]> | undefined,
): void {
  const { ttlMs, waitTtlMs, holder, floor } = requests[0]!
  const shared: Shared = {
    ttlMs,
    waitTtlMs,
    text: holderText(holder),
    floor: requests.length === 1 ? floor : undefined,
  }
  command.push(channel, whole(ttlMs), whole(waitTtlMs), shared.floor?.toString() ?? '-', shared.text)
  for (const request of requests) command.push(joinItem(request, shared, drops?.get(request)))
}

function joinItem(request: JoinRequest, shared: Shared, drop: readonly string[] | undefined): string {
  const { line, id, weight, capacity, wait, ttlMs, waitTtlMs, group, floor, holder } = request
  const text = holderText(holder)
  const alike =
    ttlMs === shared.ttlMs && waitTtlMs === shared.waitTtlMs && floor === shared.floor && text === shared.text
  if (alike && isPlainJoin(request)) return wait ? `W${id}` : `T${id}`
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
    drop === undefined || drop.length === 0 ? '-' : drop.join(','),
    text === shared.text ? '' : text,
  ].join(' ')
}

/** `inbox`: the channel of whoever takes the ticket over, should it change hands. */
export function addRenewals(requests: readonly RenewRequest[], command: string[], inbox: string): void {
  const { ttlMs, waitTtlMs } = requests[0]!
  command.push(whole(ttlMs), whole(waitTtlMs))
  for (const request of requests) {
    const plain =
      request.line.kind === 'mutex' &&
      request.ttlMs === ttlMs &&
      request.waitTtlMs === waitTtlMs &&
      request.handle === request.id &&
      request.nextHandle === undefined &&
      request.floor === undefined
    command.push(plain ? `R${request.id}` : renewItem(request, inbox))
  }
}

function renewItem(request: RenewRequest, inbox: string): string {
  const { line, id, handle, nextHandle, nextHolder, floor } = request
  const item = `${letter(line.kind)} ${whole(request.ttlMs)} ${whole(request.waitTtlMs)} ${id} ${handleText(id, handle)}`
  if (nextHandle !== undefined && nextHolder !== undefined) {
    return `${item} ${floor ?? '-'} ${handleText(id, nextHandle)} ${inbox} ${holderText(nextHolder)}`
  }
  return floor === undefined ? item : `${item} ${floor} - - -`
}

export function addGives(requests: readonly LeaveRequest[], command: string[]): void {
  for (const { id } of requests) command.push(id)
}

export function addLeaves(requests: readonly LeaveRequest[], command: string[]): void {
  for (const request of requests) command.push(leaveItem(request))
}

function leaveItem(request: LeaveRequest): string {
  const { line, id, handle, keepMs, tombstoneMs } = request
  if (isPlainLeave(request)) return `L${id}`
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
function whole(ms: number): string {
  return String(Math.ceil(ms))
}
