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
  /** What stands in every ticket between its id and its order. */
  readonly #middle: string
  readonly #unfinished: (lines: LineKey[]) => void

  constructor(keys: Keys, scripts: Scripts, channel: string, unfinished: (lines: LineKey[]) => void) {
    this.#keys = keys
    this.#scripts = scripts
    this.#middle = ` = 1 1 ${channel} `
    this.#unfinished = unfinished
  }

  /** The command that takes; undefined when these requests ask for more than one plain mutex, or others stand there. */
  take(requests: readonly JoinRequest[]): string[] | undefined {
    if (requests.length !== 1) return undefined
    const { line, id, weight, capacity, takeover, group, ttlMs, floor, holder } = requests[0]!
    const isPlain = line.kind === 'mutex' && weight === 1 && capacity === 1 && !takeover && group === undefined
    if (!isPlain) return undefined
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

  /** The command that leaves; undefined likewise. */
  leave(requests: readonly LeaveRequest[]): string[] | undefined {
    if (requests.length !== 1) return undefined
    const { line, id, handle, keepMs, tombstoneMs } = requests[0]!
    const isPlain = line.kind === 'mutex' && handle === id && keepMs === 0 && tombstoneMs === 0
    if (!isPlain) return undefined
    const { main, order, lease, tickets, slot } = this.#keys.of(line)
    return ['EVALSHA', this.#scripts.leave.sha, '5', this.#keys.last(slot), main, order, lease, tickets, `L${id}`]
  }

  /** The one answer to a leave; the reply may also say that the line has more to do than one script may. */
  left(reply: unknown, line: LineKey): string {
    const text = String(reply)
    const end = text.indexOf('\n')
    if (end === -1) return text
    this.#unfinished([line])
    return text.slice(0, end)
  }
}
