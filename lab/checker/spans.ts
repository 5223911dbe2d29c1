/** A stretch of time, and whose it is. */
export interface Span {
  readonly owner: string
  readonly from: number
  readonly to: number
}

/** Of the first spans by their start: the latest end, whose it is, and the latest end of anybody else. */
interface Reach {
  readonly owner: string
  readonly end: number
  readonly otherEnd: number
}

const NOBODY: Reach = { owner: '', end: Number.NEGATIVE_INFINITY, otherEnd: Number.NEGATIVE_INFINITY }

/** Says whether any of many spans overlaps another one: looked up, not searched for, so that long histories are cheap. */
export class Spans {
  readonly #starts: number[] = []
  readonly #reaches: Reach[] = [NOBODY]

  constructor(spans: readonly Span[]) {
    for (const span of spans.toSorted((a, b) => a.from - b.from)) {
      this.#starts.push(span.from)
      this.#reaches.push(extended(this.#reaches.at(-1)!, span))
    }
  }

  overlap({ from, to }: Span): boolean {
    return this.#before(to).end > from
  }

  /** Counts only those of other owners. */
  overlapOfOthers({ owner, from, to }: Span): boolean {
    const reach = this.#before(to)
    return (reach.owner === owner ? reach.otherEnd : reach.end) > from
  }

  /** The reach of all that start before then. */
  #before(time: number): Reach {
    let low = 0
    let high = this.#starts.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#starts[middle]! < time) low = middle + 1
      else high = middle
    }
    return this.#reaches[low]!
  }
}

function extended({ owner, end, otherEnd }: Reach, span: Span): Reach {
  if (span.owner === owner) return { owner, end: Math.max(end, span.to), otherEnd }
  if (span.to > end) return { owner: span.owner, end: span.to, otherEnd: end }
  return { owner, end, otherEnd: Math.max(otherEnd, span.to) }
}
