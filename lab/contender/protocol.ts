/** What the stage tells a contender's process, and what it answers. Tokens are decimal text; times are of the shared clock. */
export interface Opening {
  readonly recipe: string
  readonly owner: string
  readonly urls: readonly string[]
  readonly ttlMs: number
  readonly space: string
  /** What the recipe and its libraries take from Math.random follows from it. */
  readonly seed: number
}

export type Command =
  | { readonly do: 'prepare'; readonly registerPort: number; readonly skewMs: number }
  | { readonly do: 'open'; readonly opening: Opening }
  /** `waitMs` 0 asks once. With more it waits as the recipe waits, or asks again and again where it cannot wait. */
  | {
      readonly do: 'acquire'
      readonly owner: string
      readonly lock: string
      readonly hold: number
      readonly waitMs: number
    }
  | { readonly do: 'release'; readonly owner: string; readonly hold: number }
  /** One visit to the register, if it still believes in its hold; with `stop` it says so after the look and waits for `go`. */
  | {
      readonly do: 'work'
      readonly owner: string
      readonly hold: number
      readonly forMs: number
      readonly stopAfterLook: boolean
    }
  /** What to do at the next step() of this owner. */
  | { readonly do: 'arm'; readonly owner: string; readonly at: 'die' | 'stop' | 'pass' }
  | { readonly do: 'go' }
  /** Acquire, work and release, all at once: one of many waiters. */
  | {
      readonly do: 'turn'
      readonly owner: string
      readonly lock: string
      readonly hold: number
      readonly waitMs: number
    }
  | { readonly do: 'close' }

export interface Request {
  readonly id: number
  readonly command: Command
}

/** The answer to one request. */
export interface Answer {
  readonly id: number
  readonly from: number
  readonly to: number
  readonly answer: 'yes' | 'no' | 'unknown'
  readonly fence?: string
  readonly error?: string
  /** Of an acquire: since when it had stood in line. */
  readonly inLineAt?: number
  /** Of a turn: its release. */
  readonly release?: { readonly from: number; readonly to: number; readonly answer: 'yes' | 'no' | 'unknown' }
  /** Of work: how many visits were stored or clobbered, how many refused. */
  readonly visits?: number
}

/** What a contender says without being asked. */
export type Event =
  /** It looked, and no longer believes; `at` is its last look that said yes. */
  | { readonly event: 'doubts'; readonly hold: number; readonly at: number }
  /** It has taken a release up: from here on it no longer claims to hold. */
  | { readonly event: 'begun'; readonly id: number }
  /** It stands where it was told to stop: at a step of the recipe, or between a look and a write. */
  | { readonly event: 'stopped'; readonly where: string }
