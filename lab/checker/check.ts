import { type History, type Hold, holdsOf, type Operation } from './history.js'
import { type Span, Spans } from './spans.js'

/** What a history shows to be wrong, with the operations that show it. */
export interface Violation {
  readonly kind: 'two holders' | 'fence went back' | 'passed in line' | 'refused for no reason'
  readonly what: string
  readonly shownBy: readonly Operation[]
}

/**
 * Decides a history against the sequential model of a lock: at no moment more weight than capacity,
 * re-entry by the same owner counted once, tokens growing in real-time order, nobody served before one who
 * stood in line when it asked (where a line is promised), refusals explained by somebody else's hold.
 *
 * A search over orders is not needed. An acquire takes effect somewhere between its call and its answer,
 * a release likewise, so a hold surely covers [acquire answered, release called]. If those spans fit the
 * capacity, letting each acquire take effect when it is answered and each release when it is called is a
 * legal order; if they do not, there is none. So one sweep over the spans is exact, and fast.
 */
export function check(history: History): Violation | undefined {
  const byLock = grouped(holdsOf(history), ({ acquire }) => acquire.lock)
  for (const holds of byLock.values()) {
    const violation = tooManyHolders(holds) ?? fenceWentBack(holds) ?? passedInLine(holds)
    if (violation !== undefined) return violation
  }
  return unexplainedRefusal(history, byLock)
}

function grouped<T>(items: readonly T[], lockOf: (item: T) => string): Map<string, T[]> {
  const byLock = new Map<string, T[]>()
  for (const item of items) {
    const known = byLock.get(lockOf(item))
    if (known === undefined) byLock.set(lockOf(item), [item])
    else known.push(item)
  }
  return byLock
}

interface Edge {
  readonly at: number
  readonly enters: boolean
  readonly hold: Hold
}

function tooManyHolders(holds: readonly Hold[]): Violation | undefined {
  const edges: Edge[] = []
  for (const hold of holds) {
    if (hold.sure[1] <= hold.sure[0]) continue
    edges.push({ at: hold.sure[0], enters: true, hold }, { at: hold.sure[1], enters: false, hold })
  }
  // At the same moment the leaver goes first: touching is not overlapping.
  edges.sort((a, b) => a.at - b.at || Number(a.enters) - Number(b.enters))
  const inside = new Map<string, Hold[]>()
  let weight = 0
  for (const { enters, hold } of edges) {
    const { owner } = hold.acquire
    const mine = inside.get(owner) ?? []
    const before = heaviest(mine)
    if (enters) mine.push(hold)
    else mine.splice(mine.indexOf(hold), 1)
    inside.set(owner, mine)
    weight += heaviest(mine) - before
    if (enters && weight > hold.acquire.capacity) return twoHolders(hold, [...inside.values()].flat())
  }
  return undefined
}

function heaviest(holds: readonly Hold[]): number {
  return holds.reduce((most, { acquire }) => Math.max(most, acquire.weight), 0)
}

function twoHolders(hold: Hold, inside: readonly Hold[]): Violation {
  const others = inside.filter((other) => other.acquire.owner !== hold.acquire.owner)
  const names = others.map(({ acquire }) => acquire.owner).join(', ')
  return {
    kind: 'two holders',
    what: `${hold.acquire.owner} was given '${hold.acquire.lock}' at ${ms(hold.sure[0])} while ${names} held it`,
    shownBy: [...others, hold].flatMap(({ acquire, release }) =>
      release === undefined ? [acquire] : [acquire, release],
    ),
  }
}

/** An acquire that was called after another was answered must have the higher token. */
function fenceWentBack(holds: readonly Hold[]): Violation | undefined {
  const exclusive = holds.map(({ acquire }) => acquire).filter(isFenced)
  const byAnswer = exclusive.toSorted((a, b) => a.to! - b.to!)
  const byCall = exclusive.toSorted((a, b) => a.from - b.from)
  let next = 0
  let newest: Operation | undefined
  for (const later of byCall) {
    for (; next < byAnswer.length && byAnswer[next]!.to! < later.from; next += 1) {
      if (newest === undefined || byAnswer[next]!.fence! > newest.fence!) newest = byAnswer[next]
    }
    if (newest !== undefined && later.fence! <= newest.fence! && !sameHold(newest, later)) {
      const what = `${later.owner} was given token ${later.fence} after ${newest.owner} had been given ${newest.fence}`
      return { kind: 'fence went back', what, shownBy: [newest, later] }
    }
  }
  return undefined
}

function isFenced(one: Operation): boolean {
  return one.fence !== undefined && isExclusive(one)
}

function isExclusive({ answer, weight, capacity }: Operation): boolean {
  return answer === 'yes' && weight === capacity
}

// Re-entry gives the same token to the same owner again.
function sameHold(a: Operation, b: Operation): boolean {
  return a.owner === b.owner && a.fence === b.fence
}

/**
 * Nobody is served before one who stood in line already when it asked. An exclusive hold is answered before it is let
 * go, and let go before the next is given; so who was answered earlier was served earlier.
 */
function passedInLine(holds: readonly Hold[]): Violation | undefined {
  const exclusive = holds.map(({ acquire }) => acquire).filter(isExclusive)
  let latest: Operation | undefined
  for (const one of exclusive.toSorted((a, b) => a.to! - b.to!)) {
    if (latest !== undefined && one.inLineAt !== undefined && latest.from > one.inLineAt) {
      const what = `${latest.owner} asked at ${ms(latest.from)} and was served before ${one.owner}, which stood in line since ${ms(one.inLineAt)}`
      return { kind: 'passed in line', what, shownBy: [latest, one] }
    }
    if (latest === undefined || one.from > latest.from) latest = one
  }
  return undefined
}

/**
 * A refusal is right when, at some moment of the call, somebody may have held the lock. Others that were trying at the
 * same time are reason enough, too: they may have been before it in line.
 */
function unexplainedRefusal(history: History, byLock: ReadonlyMap<string, readonly Hold[]>): Violation | undefined {
  const refusals = history.filter(({ call, answer }) => call === 'acquire' && answer === 'no')
  for (const [lock, refused] of grouped(refusals, ({ lock }) => lock)) {
    const holds = new Spans((byLock.get(lock) ?? []).map(({ acquire: { owner }, maybe }) => span(owner, ...maybe)))
    const tries = new Spans(refused.map(spanOf))
    const one = refused.find((each) => !holds.overlap(spanOf(each)) && !tries.overlapOfOthers(spanOf(each)))
    if (one === undefined) continue
    return {
      kind: 'refused for no reason',
      what: `${one.owner} was refused '${one.lock}' while nobody could have held it`,
      shownBy: [one],
    }
  }
  return undefined
}

function spanOf({ owner, from, to }: Operation): Span {
  return span(owner, from, to ?? Number.POSITIVE_INFINITY)
}

function span(owner: string, from: number, to: number): Span {
  return { owner, from, to }
}

function ms(time: number): string {
  return `${time.toFixed(1)} ms`
}
