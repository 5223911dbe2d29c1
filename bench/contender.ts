/** Somebody who can lock: Holdfast, a peer, or the bare commands of the store. */
export interface Contender {
  readonly name: string
  /** What it is measured as: ours, the raw baseline, or a peer. */
  readonly role: 'holdfast' | 'raw' | 'peer'
  /** Scenarios that it cannot take part in, with the reason: shown, never left out silently. */
  readonly not?: Partial<Record<Scenario, string>>
  open(url: string): Promise<Locker | Runner>
  /** A program in another language runs these by itself. */
  drain?(url: string): Promise<Drain>
  hot?(url: string): Promise<Hot>
}

export interface Locker {
  /** Waits as this contender waits by default. */
  acquire(name: string): Promise<() => Promise<unknown>>
  close(): Promise<void>
}

/** A program in another language: it is told how many in flight, and for how long. */
export interface Runner {
  pairs(inFlight: number, ms: number): Promise<Pairs>
  close(): Promise<void>
}

export function asLocker(opened: Locker | Runner): Locker {
  if (!('acquire' in opened)) throw new TypeError('a program in another language runs its scenarios by itself')
  return opened
}

/** sequential and inflight: pairs a second · drain: 2 × 50 waiters, 1 ms hold · hot: one key, 2 × 20 waiters */
export type Scenario = 'sequential' | 'inflight' | 'drain' | 'hot'

/** What is measured beside what on one store. */
export interface StoreBench {
  readonly name: string
  /** The store for the run. The url is what every contender's `open` is given. */
  start(): Promise<{ readonly url: string; stop(): Promise<void> }>
  readonly contenders: readonly Contender[]
  /** A line in words for each number to be reached; throws nothing, says PASS or MISS. */
  goals(results: Results): Goal[]
  /** Further measurements of this store alone. */
  readonly extras?: (url: string) => Promise<Extra[]>
  /** Only processes of one machine, or not even those. */
  readonly oneProcess?: boolean
}

export interface Extra {
  readonly title: string
  readonly values: Record<string, string | number>
  readonly goals?: readonly Goal[]
}

export interface Goal {
  readonly what: string
  readonly reached: number
  readonly wanted: number
  /** at least or at most */
  readonly sense: '≥' | '≤'
}

/** Pairs a second, and what one costs this process: the second is hardly bent by what else the machine does. */
export interface Pairs {
  readonly perSecond: number
  readonly cpuMicros: number
}

export interface Drain {
  readonly served: number
  readonly ms: number
  /** The sum of the holds themselves: nothing can be faster. */
  readonly idealMs: number
}

export interface Hot {
  readonly total: number
  readonly most: number
  readonly least: number
}

/** By contender name. A scenario that was not run is missing. */
export type Results = Record<string, Result>

export interface Result {
  /** Pairs a second. */
  sequential?: number
  inflight?: number
  /** Microseconds of this process's CPU a pair. */
  sequentialCpu?: number
  inflightCpu?: number
  drain?: Drain
  hot?: Hot
}

export function goal(what: string, reached: number, sense: '≥' | '≤', wanted: number): Goal {
  return { what, reached, sense, wanted }
}

/** The best (highest) of some contenders in a scenario of pairs a second. */
export function best(results: Results, names: readonly string[], scenario: 'sequential' | 'inflight'): number {
  return Math.max(...names.map((name) => results[name]?.[scenario] ?? 0))
}
