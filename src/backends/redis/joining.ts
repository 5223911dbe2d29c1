import type { JoinRequest } from '../../core/backend.js'
import type { BackendError } from '../../core/errors.js'
import type { LineKey } from '../../core/line.js'
import { addJoins, addTakes } from './items.js'
import type { Keys } from './keys.js'
import { isPlainJoin } from './one-mutex.js'
import type { Delivery, ScriptCaller } from './script-caller.js'
import type { Scripts } from './scripts.js'
import { holderText } from './ticket.js'
import { eachAnswered, inTwoWays } from './two-ways.js'

type Answers = (string | BackendError)[]

/** The ids of earlier tickets that a takeover drops. */
export type Drops = ReadonlyMap<JoinRequest, readonly string[]>

/** Stands tickets in line: the short way where nobody is there, through the line itself elsewhere. */
export class Joining {
  readonly #caller: ScriptCaller
  readonly #keys: Keys
  readonly #scripts: Scripts
  readonly #channel: string
  readonly #mayWait: (request: JoinRequest) => void

  /** `mayWait` is told of each request that may have to wait, before it is sent. */
  constructor(
    caller: ScriptCaller,
    keys: Keys,
    scripts: Scripts,
    channel: string,
    mayWait: (request: JoinRequest) => void,
  ) {
    this.#caller = caller
    this.#keys = keys
    this.#scripts = scripts
    this.#channel = channel
    this.#mayWait = mayWait
  }

  /**
   * Most mutexes that are asked for are free. Those take half of the keys and a script that knows nothing of lines; one
   * that turns out to be held is asked for once more, and its line is remembered to be crowded until it was found free.
   */
  async join(requests: readonly JoinRequest[], by: Delivery): Promise<Answers> {
    const first = requests[0]!
    const text = holderText(first.holder)
    return await inTwoWays(requests, {
      isShort: (request) => this.#isShort(request, first, text),
      short: (some) => this.#take(some, by),
      long: (some) => this.inLine(some, by),
      doing: by.doing,
    })
  }

  /** Groups, takeovers and whatever waits: each line is looked at as a whole. */
  async inLine(requests: readonly JoinRequest[], by: Delivery, drops?: Drops): Promise<Answers> {
    const sorted = groupsTogether(requests)
    for (const request of requests) if (request.wait) this.#mayWait(request)
    const answers = await this.#caller.run(sorted, {
      by,
      script: this.#scripts.join,
      cost: (request) =>
        request.group === undefined || request === firstOfGroup(sorted, request) ? costOf(request) : 0,
      addArguments: (some, command) => addJoins(some, command, this.#channel, drops),
    })
    for (const [i, { line }] of sorted.entries()) {
      if (String(answers[i]).startsWith('g')) this.#keys.of(line).crowded = false
    }
    if (answers.some(isUndecided)) await this.#decide(sorted, answers, by, drops)
    return sorted === requests ? answers : requests.map((request) => answers[sorted.indexOf(request)]!)
  }

  // Each script clears some of the dead away, so the answer is near. A group is asked for as a whole, as ever.
  async #decide(requests: readonly JoinRequest[], answers: Answers, by: Delivery, drops?: Drops): Promise<void> {
    const groups = new Set(requests.filter((_, i) => isUndecided(answers[i]!)).map(({ group }) => group))
    const open = [...answers.keys()].filter((i) => {
      const { group } = requests[i]!
      return isUndecided(answers[i]!) || (group !== undefined && groups.has(group))
    })
    const decided = await this.inLine(
      open.map((i) => requests[i]!),
      by,
      drops,
    )
    for (const [j, i] of open.entries()) answers[i] = decided[j]!
  }

  async #take(requests: readonly JoinRequest[], by: Delivery): Promise<Answers> {
    const answers = await this.#caller.run(requests, {
      by,
      script: this.#scripts.take,
      keys: 'ends',
      cost: () => SHORT_COST,
      addArguments: (some, command) => addTakes(some, command, this.#channel),
    })
    return answers.every(isGranted) ? answers : await this.#stayed(requests, answers, by)
  }

  // Those that somebody else has: a try is refused, the others stand in line.
  async #stayed(requests: readonly JoinRequest[], answers: Answers, by: Delivery): Promise<Answers> {
    const busy: number[] = []
    for (const [i, answer] of answers.entries()) {
      if (answer === 'h' && !requests[i]!.wait) answers[i] = 'r'
      else if (answer === 'h' || answer === '-') busy.push(i)
    }
    if (busy.length === 0) return answers
    const left = busy.map((i) => requests[i]!)
    for (const { line } of left) this.#keys.of(line).crowded = true
    const stood = await eachAnswered(this.inLine(left, by), left.length, by.doing)
    for (const [j, i] of busy.entries()) answers[i] = stood[j]!
    return answers
  }

  #isShort(request: JoinRequest, first: JoinRequest, text: string): boolean {
    return (
      isPlainJoin(request) &&
      request.ttlMs === first.ttlMs &&
      request.floor === first.floor &&
      holderText(request.holder) === text &&
      !this.#keys.of(request.line).crowded
    )
  }
}

function isGranted(answer: string | BackendError): boolean {
  return typeof answer === 'string' && answer.charCodeAt(0) === GRANTED
}

/** More dead stood before a try than one script may clear away: neither yes nor no. */
function isUndecided(answer: string | BackendError): boolean {
  return answer === 'm' || answer === '?m'
}

const GRANTED = 'g'.charCodeAt(0)

/** What a short way does for a mutex, as a multiple of renewing one that is held. */
export const SHORT_COST = 2

/** Standing in line or leaving it, as a multiple of renewing a mutex that is held: some 14 commands, and some 18. */
export function costOf({ line }: { readonly line: LineKey }): number {
  return line.kind === 'mutex' ? 4 : 5
}

function firstOfGroup(requests: readonly JoinRequest[], request: JoinRequest): JoinRequest {
  return requests.find(({ group }) => group === request.group)!
}

/** The same requests, those of one group side by side: the script takes a group as a run of items. */
function groupsTogether(requests: readonly JoinRequest[]): readonly JoinRequest[] {
  if (requests.every(({ group }) => group === undefined)) return requests
  const places = new Map<string, number>()
  const rank = (request: JoinRequest, i: number): number => {
    if (request.group === undefined) return i
    const place = places.get(request.group) ?? i
    places.set(request.group, place)
    return place
  }
  return requests
    .map((request, i) => ({ request, rank: rank(request, i) }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ request }) => request)
}
