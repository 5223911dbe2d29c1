import type { JoinRequest, LeaveRequest } from '../../core/backend.js'
import type { LineKey } from '../../core/line.js'
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
  readonly #channel: string
  readonly #unfinished: (lines: LineKey[]) => void

  constructor(keys: Keys, scripts: Scripts, channel: string, unfinished: (lines: LineKey[]) => void) {
    this.#keys = keys
    this.#scripts = scripts
    this.#channel = channel
    this.#unfinished = unfinished
  }

  /** The command that joins; undefined when these requests ask for more than one plain mutex. */
  join(requests: readonly JoinRequest[]): string[] | undefined {
    if (requests.length !== 1) return undefined
    const { line, id, wait, weight, capacity, takeover, group, ttlMs, waitTtlMs, floor, holder } = requests[0]!
    const isPlain = line.kind === 'mutex' && weight === 1 && capacity === 1 && !takeover && group === undefined
    if (!isPlain) return undefined
    const { main, order, lease, tickets, slot } = this.#keys.of(line)
    const [ttl, waitTtl, least] = [whole(ttlMs), whole(waitTtlMs), floor === undefined ? '-' : String(floor)]
    const args = [this.#channel, ttl, waitTtl, least, holderText(holder), wait ? `W${id}` : `T${id}`]
    return ['EVALSHA', this.#scripts.join.sha, '5', this.#keys.last(slot), main, order, lease, tickets, ...args]
  }

  /** The command that leaves; undefined likewise. */
  leave(requests: readonly LeaveRequest[]): string[] | undefined {
    if (requests.length !== 1) return undefined
    const { line, id, handle, keepMs, tombstoneMs } = requests[0]!
    const isPlain = line.kind === 'mutex' && handle === id && keepMs === 0 && tombstoneMs === 0
    if (!isPlain) return undefined
    const { main, order, lease, tickets, slot } = this.#keys.of(line)
    return ['EVALSHA', this.#scripts.leave.sha, '5', this.#keys.last(slot), main, order, lease, tickets, `L${id}`]
  }

  /** The one answer in a reply, which may also say that the line has more to do than one script may. */
  answer(reply: unknown, line: LineKey): string {
    const text = String(reply)
    const end = text.indexOf('\n')
    if (end === -1) return text
    this.#unfinished([line])
    return text.slice(0, end)
  }
}

/** Redis counts whole milliseconds, at least one. */
function whole(ms: number): string {
  return String(Math.ceil(ms))
}
