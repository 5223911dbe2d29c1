import type { BackendError } from '../../core/errors.js'
import type { LineKey } from '../../core/line.js'
import { failure } from './failure.js'
import type { Keys, LineKeys } from './keys.js'
import type { Script } from './scripts.js'
import type { Wire } from './wire.js'

export interface ScriptCall<Request> {
  readonly script: Script
  /** For messages: 'join a line'. */
  readonly doing: string
  readonly wire: Wire
  /** So many replicas must have what was written; answers of calls that they do not have start with '?'. */
  readonly replicas: number
  readonly replicaTimeoutMs: number
  /** An argument before those of the items. */
  readonly first?: string
  /** The argument of one request, which may lean on the one before it. */
  item(request: Request, before: Request | undefined): string
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
  async run<Request extends { readonly line: LineKey }>(
    requests: readonly Request[],
    call: ScriptCall<Request>,
  ): Promise<(string | BackendError)[]> {
    if (!call.wire.cluster)
      return await this.#one(
        requests,
        requests.map(({ line }) => this.#keys.of(line)),
        call,
      )
    return await this.#perSlot(requests, call)
  }

  // One slot that cannot be reached leaves the others answered.
  async #perSlot<Request extends { readonly line: LineKey }>(
    requests: readonly Request[],
    call: ScriptCall<Request>,
  ): Promise<(string | BackendError)[]> {
    const slots = new Map<number, { places: number[]; keys: LineKeys[] }>()
    for (const [place, { line }] of requests.entries()) {
      const keys = this.#keys.of(line)
      const slot = slots.get(keys.slot) ?? { places: [], keys: [] }
      slots.set(keys.slot, slot)
      slot.places.push(place)
      slot.keys.push(keys)
    }
    const answers: (string | BackendError)[] = []
    await Promise.all(
      [...slots.values()].map(async ({ places, keys }) => {
        try {
          const some = await this.#one(
            places.map((place) => requests[place]!),
            keys,
            call,
          )
          for (const [i, place] of places.entries()) answers[place] = some[i]!
        } catch (error) {
          for (const place of places) answers[place] = failure(error, call.doing)
        }
      }),
    )
    return answers
  }

  async #one<Request extends { readonly line: LineKey }>(
    requests: readonly Request[],
    keys: readonly LineKeys[],
    call: ScriptCall<Request>,
  ): Promise<string[]> {
    const first = keys[0]!
    const rest = [String(1 + 4 * keys.length), this.#keys.last(first.slot)]
    for (const { main, order, lease, tickets } of keys) rest.push(main, order, lease, tickets)
    if (call.first !== undefined) rest.push(call.first)
    for (const [i, request] of requests.entries()) rest.push(call.item(request, requests[i - 1]))
    const [reply, copied] = await this.#evaluate(call, rest, first.main)
    if (typeof reply === 'string') return [copied ? reply : `?${reply}`]
    const answers = reply as string[]
    if (answers.length > requests.length) {
      const items = answers.pop()!.split(' ').map(Number)
      this.#unfinished(items.map((item) => requests[item - 1]!.line))
    }
    return copied ? answers : answers.map((answer) => `?${answer}`)
  }

  async #evaluate<Request>(call: ScriptCall<Request>, rest: string[], key: string): Promise<[unknown, boolean]> {
    try {
      return await send(call, ['EVALSHA', call.script.sha, ...rest], key)
    } catch (error) {
      if (!isNoScript(error)) throw failure(error, call.doing)
    }
    // The server was restarted, or its scripts were flushed: the text loads it again.
    try {
      return await send(call, ['EVAL', call.script.text, ...rest], key)
    } catch (error) {
      throw failure(error, call.doing)
    }
  }
}

async function send<Request>(call: ScriptCall<Request>, command: string[], key: string): Promise<[unknown, boolean]> {
  const { wire, replicas, replicaTimeoutMs } = call
  if (replicas === 0) return [await wire.send(command, key), true]
  const [reply, acknowledged] = await wire.sendAndWait(command, key, replicas, replicaTimeoutMs)
  return [reply, acknowledged >= replicas]
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.includes('NOSCRIPT')
}
