import type { Tally, Visit } from '../situation.js'

/** What is asked of the register. Tokens are decimal text. */
export type RegisterRequest =
  | { readonly do: 'read'; readonly lock: string; readonly owner: string; readonly fence?: string }
  | { readonly do: 'write'; readonly visit: number }
  | { readonly do: 'reset'; readonly since: number }
  | { readonly do: 'tell' }

export interface RegisterAnswer {
  /** Of a read: the number that the write must name; left out when a newer token had been there. */
  readonly visit?: number
  /** Of a write. */
  readonly outcome?: Visit['outcome']
  /** Of a tell. */
  readonly visits?: readonly VisitText[]
  readonly tally?: Tally
}

/** A visit as it goes over the wire. */
export interface VisitText extends Omit<Visit, 'fence'> {
  readonly fence?: string
}

interface Open {
  readonly lock: string
  readonly owner: string
  readonly fence: bigint | undefined
  readonly version: number
  readonly from: number
}

interface Cell {
  version: number
  newest: bigint | undefined
}

/**
 * One number behind each lock. A visit reads it and later writes it back plus one, so whoever writes in between
 * is overwritten: a lost update. It compares tokens where they come (at the read as well as at the write) and
 * refuses one that is lower than the newest it has seen; without a token it has to believe everybody.
 */
export class Register {
  #cells = new Map<string, Cell>()
  #overlaps = 0
  #lostUpdates = 0
  #stale = 0
  #stored = 0
  #since = 0
  #next = 1
  #open = new Map<number, Open>()
  #visits: VisitText[] = []
  readonly #now: () => number

  constructor(now: () => number = monotonicMs) {
    this.#now = now
  }

  answer(request: RegisterRequest): RegisterAnswer {
    switch (request.do) {
      case 'read':
        return this.#read(request.lock, request.owner, request.fence === undefined ? undefined : BigInt(request.fence))
      case 'write':
        return this.#write(request.visit)
      case 'reset':
        this.#reset(request.since)
        return {}
      case 'tell':
        break
    }
    return this.#tell()
  }

  /** These visits will never be finished: their visitor is gone. */
  abandon(visits: Iterable<number>): void {
    for (const visit of visits) {
      const open = this.#open.get(visit)
      if (open === undefined) continue
      this.#open.delete(visit)
      this.#visits.push(this.#visit(open, 'unfinished'))
    }
  }

  #read(lock: string, owner: string, fence: bigint | undefined): RegisterAnswer {
    const cell = this.#cell(lock)
    const open = { lock, owner, fence, version: cell.version, from: this.#at() }
    if (isStale(cell, fence)) {
      this.#note(open, 'refused')
      return {}
    }
    for (const other of this.#open.values()) if (other.lock === lock && other.owner !== owner) this.#overlaps += 1
    const visit = this.#next++
    this.#open.set(visit, open)
    return { visit }
  }

  #write(visit: number): RegisterAnswer {
    const open = this.#open.get(visit)
    if (open === undefined) return { outcome: 'refused' }
    this.#open.delete(visit)
    const cell = this.#cell(open.lock)
    if (isStale(cell, open.fence)) return this.#note(open, 'refused')
    const clobbers = cell.version !== open.version
    if (clobbers) this.#lostUpdates += 1
    cell.version += 1
    this.#stored += 1
    return this.#note(open, clobbers ? 'clobbered' : 'stored')
  }

  #cell(lock: string): Cell {
    const known = this.#cells.get(lock)
    if (known !== undefined) return known
    const cell: Cell = { version: 0, newest: undefined }
    this.#cells.set(lock, cell)
    return cell
  }

  #note(open: Open, outcome: Visit['outcome']): RegisterAnswer {
    if (outcome === 'refused') this.#stale += 1
    this.#visits.push(this.#visit(open, outcome))
    return { outcome }
  }

  #visit({ owner, fence, from }: Open, outcome: Visit['outcome']): VisitText {
    return { owner, from, to: this.#at(), outcome, ...(fence === undefined ? {} : { fence: fence.toString() }) }
  }

  #tell(): RegisterAnswer {
    const unfinished = [...this.#open.values()].map((open) => this.#visit(open, 'unfinished'))
    const tally = {
      stored: this.#stored,
      overlaps: this.#overlaps,
      lostUpdates: this.#lostUpdates,
      stale: this.#stale,
    }
    return { visits: [...this.#visits, ...unfinished], tally }
  }

  #reset(since: number): void {
    this.#cells = new Map()
    this.#stored = this.#overlaps = this.#lostUpdates = this.#stale = 0
    this.#since = since
    this.#open = new Map()
    this.#visits = []
  }

  #at(): number {
    return this.#now() - this.#since
  }
}

function isStale(cell: Cell, fence: bigint | undefined): boolean {
  if (fence === undefined) return false
  if (cell.newest === undefined || fence > cell.newest) cell.newest = fence
  return fence < cell.newest
}

/** The clock that all processes of this machine share. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
