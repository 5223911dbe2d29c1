import type { BackendError } from '../../core/errors.js'
import type { LineKey } from '../../core/line.js'
import { failure } from './failure.js'
import type { Keys, LineKeys } from './keys.js'
import { isNoScript } from './run-script.js'
import type { Script } from './scripts.js'
import type { Wire } from './wire.js'

/** How a call is sent, whatever it says. */
export interface Delivery {
  /** For messages: 'join a line'. */
  readonly doing: string
  readonly wire: Wire
  /** So many replicas must have what was written; answers of calls that they do not have start with '?'. */
  readonly replicas: number
  readonly replicaTimeoutMs: number
}

export interface ScriptCall<Request> {
  readonly script: Script
  readonly by: Delivery
  /** What a request may cost, as a multiple of renewing a mutex that is held; 0: must stay with the one before. */
  cost(request: Request): number
  /** Which keys of a line the script wants: all of them unless said otherwise. */
  readonly keys?: 'line' | 'ends'
  /** Adds the script's arguments: what the requests share, then one for each. */
  addArguments(requests: readonly Request[], command: string[]): void
}

/** So much may be done in one script: some 4 µs each. */
const MOST_WORK = 256

interface Part {
  readonly places: number[]
  readonly keys: LineKeys[]
  cost: number
}

/** Calls the line scripts: one call for all items, on a Cluster one for each slot. */
export class ScriptCaller {
  readonly #keys: Keys
  /** Lines in which one script found more to grant than one script may. */
  readonly #unfinished: (lines: LineKey[]) => void

  constructor(keys: Keys, unfinished: (lines: LineKey[]) => void) {
    this.#keys = keys
    this.#unfinished = unfinished
  }

  /** One answer for each request, in order. Rejects when the call failed as a whole. */
  run<Request extends { readonly line: LineKey }>(
    requests: readonly Request[],
    call: ScriptCall<Request>,
  ): Promise<(string | BackendError)[]> {
    if (requests.length === 1) return this.#one(requests, [this.#keys.of(requests[0]!.line)], call)
    const parts = this.#parts(requests, call)
    return parts.length === 1 ? this.#one(requests, parts[0]!.keys, call) : this.#several(requests, parts, call)
  }

  async #several<Request extends { readonly line: LineKey }>(
    requests: readonly Request[],
    parts: readonly Part[],
    call: ScriptCall<Request>,
  ): Promise<(string | BackendError)[]> {
    // One part that fails (a slot that cannot be reached) leaves the others answered.
    const answers: (string | BackendError)[] = []
    await Promise.all(
      parts.map(async ({ places, keys }) => {
        try {
          const some = await this.#one(
            places.map((place) => requests[place]!),
            keys,
            call,
          )
          for (const [i, place] of places.entries()) answers[place] = some[i]!
        } catch (error) {
          for (const place of places) answers[place] = failure(error, call.by.doing)
        }
      }),
    )
    return answers
  }

  // By slot, and each slot's so that one script stays within about a millisecond; they are sent one behind the other.
  #parts<Request extends { readonly line: LineKey }>(requests: readonly Request[], call: ScriptCall<Request>): Part[] {
    const parts: Part[] = []
    const open = new Map<number, Part>()
    for (const [place, request] of requests.entries()) {
      const keys = this.#keys.of(request.line)
      let part = open.get(keys.slot)
      const cost = call.cost(request)
      const stays = cost === 0
      if (part === undefined || (!stays && part.cost + cost > MOST_WORK)) {
        part = { places: [], keys: [], cost: 0 }
        open.set(keys.slot, part)
        parts.push(part)
      }
      part.places.push(place)
      part.keys.push(keys)
      part.cost += cost
    }
    return parts
  }

  async #one<Request extends { readonly line: LineKey }>(
    requests: readonly Request[],
    keys: readonly LineKeys[],
    call: ScriptCall<Request>,
  ): Promise<string[]> {
    const first = keys[0]!
    const short = call.keys === 'ends'
    const count = 1 + (short ? 2 : 4) * keys.length
    const command = ['evalsha', call.script.sha, String(count), this.#keys.last(first.slot)]
    for (const { main, order, lease, tickets } of keys) {
      if (short) command.push(main, lease)
      else command.push(main, order, lease, tickets)
    }
    call.addArguments(requests, command)
    let reply: unknown
    let copied = true
    try {
      if (call.by.replicas === 0) reply = await call.by.wire.send(command, first.main)
      else [reply, copied] = await send(call.by, command, first.main)
    } catch (error) {
      ;[reply, copied] = await load(call, command, first.main, error)
    }
    const text = String(reply)
    const answers = text.includes('\n') ? text.split('\n') : [text]
    if (answers.length > requests.length) {
      const items = answers.pop()!.slice(1).split(' ').map(Number)
      this.#unfinished(items.map((item) => requests[item - 1]!.line))
    }
    return copied ? answers : answers.map((answer) => `?${answer}`)
  }
}

/** The server was restarted, or its scripts were flushed: the text loads it again. Any other error stays one. */
async function load<Request>(
  call: ScriptCall<Request>,
  command: string[],
  key: string,
  error: unknown,
): Promise<[unknown, boolean]> {
  if (!isNoScript(error)) throw failure(error, call.by.doing)
  try {
    return await send(call.by, ['eval', call.script.text, ...command.slice(2)], key)
  } catch (failed) {
    throw failure(failed, call.by.doing)
  }
}

async function send(by: Delivery, command: string[], key: string): Promise<[unknown, boolean]> {
  const { wire, replicas, replicaTimeoutMs } = by
  if (replicas === 0) return [await wire.send(command, key), true]
  const [reply, acknowledged] = await wire.sendAndWait(command, key, replicas, replicaTimeoutMs)
  return [reply, acknowledged >= replicas]
}
