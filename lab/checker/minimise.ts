import { check, type Violation } from './check.js'
import type { History } from './history.js'

/** The few operations that still show the same kind of violation: halves, then single ones, are left out while it stays. */
export function minimise(history: History, violation: Violation): History {
  const fails = (part: History): boolean => check(part)?.kind === violation.kind
  // What the checker names is nearly always enough; else what those did with that lock; the search is for the rest.
  const theirs = history.filter(({ owner, lock }) =>
    violation.shownBy.some((one) => one.owner === owner && one.lock === lock),
  )
  let best: History = [violation.shownBy, theirs].find(fails) ?? history
  for (let size = best.length >> 1; size >= 1; size >>= 1) {
    for (let at = 0; at < best.length; ) {
      const without = best.toSpliced(at, size)
      if (fails(without)) best = without
      else at += size
    }
  }
  return best.toSorted((a, b) => a.from - b.from)
}

/** A history as lines that a person can read. */
export function lines(history: History): string[] {
  return history.map(({ owner, call, lock, from, to, answer, fence, inLineAt, believedUntil }) => {
    const token = fence === undefined ? '' : `, token ${fence}`
    const line = inLineAt === undefined ? '' : `, in line since ${inLineAt.toFixed(1)}`
    const belief = believedUntil === undefined ? '' : `, believed until ${believedUntil.toFixed(1)}`
    const end = to === undefined ? '   never' : to.toFixed(1).padStart(8)
    return `${from.toFixed(1).padStart(8)} –${end} ms  ${owner} ${call} '${lock}': ${answer}${token}${line}${belief}`
  })
}
