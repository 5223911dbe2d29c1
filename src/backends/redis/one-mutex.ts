import type { JoinRequest, LeaveRequest, Standing } from '../../core/backend.js'
import type { Keys } from './keys.js'
import type { Scripts } from './scripts.js'
import { holderText } from './ticket.js'
import type { Wire } from './wire.js'
import { keptWords, type Words, words } from './words.js'

/** How the server is told which script: by its hash, or by its text when it does not know it (any more). */
export type Naming = 'hash' | 'text'

const NOTHING = words([])

/**
 * The commonest calls by far, one plain mutex asked for or let go of: scripts of their own, and commands of which all
 * but the ticket's id is spelt already. A quorum makes ten of them for a pair, one after the other.
 */
export class OneMutex {
  readonly #keys: Keys
  readonly #scripts: Scripts
  /** What stands in every ticket between its id and its order. */
  readonly #middle: string
  /** How the last take ended: mostly, the next one asks for the same. */
  #end: { readonly ttlMs: number; readonly holder: string; readonly words: Words } | undefined

  constructor(keys: Keys, scripts: Scripts, channel: string) {
    this.#keys = keys
    this.#scripts = scripts
    this.#middle = ` = 1 1 ${channel} `
  }

  /** Takes, or asks in vain; undefined when these requests ask for more than one plain mutex, or others stand there. */
  take(requests: readonly JoinRequest[], wire: Wire, by: Naming): Promise<unknown> | undefined {
    if (requests.length !== 1 || !isPlainJoin(requests[0]!)) return undefined
    const { line, id } = requests[0]!
    const keys = this.#keys.of(line)
    if (keys.crowded) return undefined
    const { main, lease, slot } = keys
    const { sha, text } = this.#scripts.takeOne
    keys.take ??= keptWords(['evalsha', sha, '3', this.#keys.last(slot), main, lease])
    const ticket = `hf1 ${id}${this.#middle}`
    const end = this.#endOf(requests[0]!)
    if (by === 'hash') return wire.sendAround(keys.take, ticket, end, main)
    return wire.send(['eval', text, ...keys.take.list.slice(2), ticket, ...end.list], main)
  }

  /** What became of it; undefined: somebody is there, so it must stand in line. */
  taken(reply: unknown, { line, wait, ttlMs }: JoinRequest): Standing | undefined {
    if (typeof reply === 'number' || isOrder(reply)) {
      return { state: 'granted', order: BigInt(reply), ttlMs: Math.ceil(ttlMs) }
    }
    if (String(reply) === 'h' && !wait) return { state: 'refused' }
    this.#keys.of(line).crowded = true
    return undefined
  }

  /** Lets go, or tries in vain; undefined likewise. */
  give(requests: readonly LeaveRequest[], wire: Wire, by: Naming): Promise<unknown> | undefined {
    if (requests.length !== 1 || !isPlainLeave(requests[0]!)) return undefined
    const { line, id } = requests[0]!
    const keys = this.#keys.of(line)
    if (keys.crowded) return undefined
    const { main, lease } = keys
    const { sha, text } = this.#scripts.giveOne
    keys.give ??= keptWords(['evalsha', sha, '2', main, lease])
    const ticket = `hf1 ${id} = `
    if (by === 'hash') return wire.sendAround(keys.give, ticket, NOTHING, main)
    return wire.send(['eval', text, ...keys.give.list.slice(2), ticket], main)
  }

  /** True when it is free now; otherwise the line must be looked at. */
  given(reply: unknown, { line }: LeaveRequest): boolean {
    const isFree = String(reply) === '1'
    if (!isFree) this.#keys.of(line).crowded = true
    return isFree
  }

  #endOf({ ttlMs, floor, holder }: JoinRequest): Words {
    const text = holderText(holder)
    if (this.#end?.ttlMs !== ttlMs || this.#end.holder !== text) {
      this.#end = { ttlMs, holder: text, words: keptWords([` ${text}`, String(Math.ceil(ttlMs))]) }
    }
    return floor === undefined ? this.#end.words : words([...this.#end.words.list, String(floor)])
  }
}

/** A client may be set up to give numbers as texts. */
function isOrder(reply: unknown): reply is string {
  return /^\d+$/.test(String(reply))
}

/** A mutex asked for, with nothing special about it. */
export function isPlainJoin({ line, weight, capacity, takeover, group }: JoinRequest): boolean {
  return line.kind === 'mutex' && weight === 1 && capacity === 1 && !takeover && group === undefined
}

/** A mutex let go of as it was taken: by its first handle, nothing to be kept. */
export function isPlainLeave({ line, id, handle, keepMs, tombstoneMs }: LeaveRequest): boolean {
  return line.kind === 'mutex' && handle === id && keepMs === 0 && tombstoneMs === 0
}
