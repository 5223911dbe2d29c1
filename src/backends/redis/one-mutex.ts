import type { JoinRequest, LeaveRequest } from '../../core/backend.js'
import type { Keys } from './keys.js'
import type { Scripts } from './scripts.js'
import { holderText } from './ticket.js'

/** In a script call, the place of the key by which a Cluster's node is found. */
export const MAIN_KEY = 4

/**
 * The commonest calls by far, one plain mutex asked for or let go of: the same scripts and answers as for many items,
 * without whatever only many need. A quorum makes ten of them for a pair, one after the other in one process.
 */
export class OneMutex {
  readonly #keys: Keys
  readonly #scripts: Scripts
  /** What stands in every ticket between its id and its order. */
  readonly #middle: string

  constructor(keys: Keys, scripts: Scripts, channel: string) {
    this.#keys = keys
    this.#scripts = scripts
    this.#middle = ` = 1 1 ${channel} `
  }

  /** The command that takes; undefined when these requests ask for more than one plain mutex, or others stand there. */
  take(requests: readonly JoinRequest[]): string[] | undefined {
    if (requests.length !== 1) return undefined
    const { line, id, ttlMs, floor, holder } = requests[0]!
    if (!isPlainJoin(requests[0]!)) return undefined
    const { main, lease, slot, crowded } = this.#keys.of(line)
    if (crowded) return undefined
    const [ttl, least] = [String(Math.ceil(ttlMs)), floor === undefined ? '' : String(floor)]
    const [middle, rest] = [this.#middle, ` ${holderText(holder)}`]
    return ['EVALSHA', this.#scripts.take.sha, '3', this.#keys.last(slot), main, lease, ttl, least, middle, rest, id]
  }

  /** What became of it; undefined: somebody is there, so it must stand in line. */
  taken(reply: unknown, { line, wait }: JoinRequest): string | undefined {
    const answer = String(reply)
    if (answer.startsWith('g')) return answer
    if (answer === 'h' && !wait) return 'r'
    this.#keys.of(line).crowded = true
    return undefined
  }

  /** The command that lets go; undefined likewise. */
  give(requests: readonly LeaveRequest[]): string[] | undefined {
    if (requests.length !== 1) return undefined
    const { line, id } = requests[0]!
    if (!isPlainLeave(requests[0]!)) return undefined
    const { main, lease, slot, crowded } = this.#keys.of(line)
    return crowded ? undefined : ['EVALSHA', this.#scripts.give.sha, '3', this.#keys.last(slot), main, lease, id]
  }

  /** True when it is free now; otherwise the line must be looked at. */
  given(reply: unknown, { line }: LeaveRequest): boolean {
    const isFree = String(reply) === '1'
    if (!isFree) this.#keys.of(line).crowded = true
    return isFree
  }
}

/** A mutex asked for, with nothing special about it. */
export function isPlainJoin({ line, weight, capacity, takeover, group }: JoinRequest): boolean {
  return line.kind === 'mutex' && weight === 1 && capacity === 1 && !takeover && group === undefined
}

/** A mutex let go of as it was taken: by its first handle, nothing to be kept. */
export function isPlainLeave({ line, id, handle, keepMs, tombstoneMs }: LeaveRequest): boolean {
  return line.kind === 'mutex' && handle === id && keepMs === 0 && tombstoneMs === 0
}
