import type { Operation } from './checker/history.js'
import type { Stage } from './stage.js'

/** Something that goes wrong, and what the contenders do meanwhile. */
export interface Situation {
  /** The file's name: 'holder-crashes'. */
  readonly name: string
  /** For people, short enough for a column: 'holder crashes'. */
  readonly title: string
  /** One or two sentences: what is done, and what a good lock would do. */
  readonly story: string
  /** It does something to the servers that others on them would notice. */
  readonly breaksServers?: boolean
  /** Plays it. What is seen gathers in the stage. */
  run(stage: Stage): Promise<void>
}

/** A moment that the picture points at. */
export interface Mark {
  readonly at: number
  readonly label: string
  /** Whose lane; left out: everybody's. */
  readonly owner?: string
  readonly kind: 'fault' | 'healed' | 'note'
}

/** A stretch of time in which a contender could do nothing, or could not reach the store. */
export interface Stretch {
  readonly owner: string
  readonly from: number
  readonly to: number
  readonly label: string
}

/** One visit to the register: a read, some work, a write that rests on what was read. */
export interface Visit {
  readonly owner: string
  readonly from: number
  readonly to: number
  readonly fence?: bigint
  /**
   * stored · refused (a newer token had been there) · clobbered (stored, over something that was written
   * since the read: an update is lost) · unfinished (the contender died in between)
   */
  readonly outcome: 'stored' | 'refused' | 'clobbered' | 'unfinished'
}

/** What the register counted. */
export interface Tally {
  readonly stored: number
  /** Visits of different owners that were in there at the same time. */
  readonly overlaps: number
  readonly lostUpdates: number
  /** Writes that came with a token lower than the newest: refused. */
  readonly stale: number
}

/** Everything that was seen while a situation was played with a recipe. */
export interface Evidence {
  readonly seed: number
  readonly ttlMs: number
  readonly ms: number
  readonly history: readonly Operation[]
  readonly marks: readonly Mark[]
  readonly stretches: readonly Stretch[]
  readonly visits: readonly Visit[]
  readonly tally: Tally
  /** Why a live contender counts as not served. */
  readonly hangs?: string
  /** Why this has no meaning for the recipe. */
  readonly notOffered?: string
  /** Numbers in words: 'about 49 requests a hand-off'. */
  readonly facts: readonly string[]
}

/** Thrown by a situation to end it: the recipe has no such thing. */
export class NotOffered extends Error {}
