/** One call of a contender and what became of it. Times are milliseconds of one monotonic clock that all contenders share. */
export interface Operation {
  /** Who: a process, or one of its async contexts where those own locks apart. */
  readonly owner: string
  readonly call: 'acquire' | 'release'
  readonly lock: string
  /** How much of the lock is asked for; a mutex has 1 of 1. */
  readonly weight: number
  readonly capacity: number
  readonly from: number
  /** When it was answered; undefined: never (the contender died, or the answer was lost). */
  readonly to?: number
  /** yes · no (refused, or nothing to release) · unknown (an error, or never answered) */
  readonly answer: 'yes' | 'no' | 'unknown'
  /** The token that came with a yes, where the recipe has one. */
  readonly fence?: bigint
  /** From here on it stood in line, where that is promised to count. */
  readonly inLineAt?: number
  /** From here on the holder itself no longer believed in the hold, though it never released it. */
  readonly believedUntil?: number
  /** Waiting is allowed: a no is then a time-out, which any contention before it explains. */
  readonly waits?: boolean
}

export type History = readonly Operation[]

/** A hold as the history shows it. Inside `sure` the holder held, by its own view; outside `maybe` it did not. */
export interface Hold {
  readonly acquire: Operation
  readonly release: Operation | undefined
  readonly sure: readonly [from: number, to: number]
  readonly maybe: readonly [from: number, to: number]
}

/** Pairs each acquire that may have succeeded with the release that ended it; re-entry nests. */
export function holdsOf(history: History): Hold[] {
  const holds: Hold[] = []
  const open = new Map<string, Operation[]>()
  for (const one of history.toSorted((a, b) => a.from - b.from)) {
    const key = JSON.stringify([one.owner, one.lock])
    const stack = open.get(key) ?? []
    open.set(key, stack)
    if (one.call === 'acquire') {
      if (one.answer === 'yes') stack.push(one)
      else if (one.answer === 'unknown') holds.push(unknownHold(one))
      continue
    }
    const acquire = stack.pop()
    if (acquire !== undefined) holds.push(knownHold(acquire, one))
  }
  for (const stack of open.values()) for (const acquire of stack) holds.push(knownHold(acquire, undefined))
  return holds
}

function knownHold(acquire: Operation, release: Operation | undefined): Hold {
  const ends = Math.min(release?.from ?? Number.POSITIVE_INFINITY, acquire.believedUntil ?? Number.POSITIVE_INFINITY)
  const over = release?.answer === 'yes' ? (release.to ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY
  return { acquire, release, sure: [acquire.to!, Math.max(ends, acquire.to!)], maybe: [acquire.from, over] }
}

// Nobody knows whether it held, so it explains refusals and proves nothing.
function unknownHold(acquire: Operation): Hold {
  return {
    acquire,
    release: undefined,
    sure: [acquire.from, acquire.from],
    maybe: [acquire.from, Number.POSITIVE_INFINITY],
  }
}
