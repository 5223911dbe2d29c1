import type { Clock, Timer } from './clock.js'

/** Something that wants to be woken at a time. The two fields belong to the alarm clock. */
export interface Sleeper {
  wakeAt: number
  /** Where it stands in the heap; -1 when it sleeps for good. */
  place: number
  wake(now: number): void
}

/**
 * One timer for any number of sleepers: a binary heap in which each knows its place, so that a
 * lease released long before its alarm leaves nothing behind.
 */
export class AlarmClock {
  readonly #clock: Clock
  readonly #heap: Sleeper[] = []
  #timer: Timer | undefined
  #timerAt = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#heap.length
  }

  /** Wakes the sleeper at that time, whatever was asked before. */
  set(sleeper: Sleeper, wakeAt: number): void {
    if (sleeper.place === -1) {
      sleeper.wakeAt = wakeAt
      sleeper.place = this.#heap.length
      this.#heap.push(sleeper)
      this.#up(sleeper)
    } else {
      const earlier = wakeAt < sleeper.wakeAt
      sleeper.wakeAt = wakeAt
      if (earlier) this.#up(sleeper)
      else this.#down(sleeper)
    }
    this.#arm()
  }

  /** Lets it sleep for good. */
  clear(sleeper: Sleeper): void {
    const place = sleeper.place
    if (place === -1) return
    sleeper.place = -1
    const last = this.#heap.pop()!
    if (last === sleeper) return
    this.#heap[place] = last
    last.place = place
    this.#up(last)
    this.#down(last)
  }

  close(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    for (const sleeper of this.#heap) sleeper.place = -1
    this.#heap.length = 0
  }

  // A timer that fires too early finds nobody to wake and arms itself again: cheaper than moving it each time.
  #arm(): void {
    const first = this.#heap[0]
    if (first === undefined || (this.#timer !== undefined && this.#timerAt <= first.wakeAt)) return
    this.#timer?.cancel()
    this.#timerAt = first.wakeAt
    this.#timer = this.#clock.after(first.wakeAt - this.#clock.now(), () => this.#ring(), false)
  }

  #ring(): void {
    this.#timer = undefined
    const now = this.#clock.now()
    for (let first = this.#heap[0]; first !== undefined && first.wakeAt <= now; first = this.#heap[0]) {
      this.clear(first)
      first.wake(now)
    }
    this.#arm()
  }

  #up(sleeper: Sleeper): void {
    let place = sleeper.place
    while (place > 0) {
      const parent = this.#heap[(place - 1) >> 1]!
      if (parent.wakeAt <= sleeper.wakeAt) break
      this.#heap[place] = parent
      const swap = parent.place
      parent.place = place
      place = swap
    }
    this.#heap[place] = sleeper
    sleeper.place = place
  }

  #down(sleeper: Sleeper): void {
    let place = sleeper.place
    for (;;) {
      const left = 2 * place + 1
      if (left >= this.#heap.length) break
      const right = left + 1
      const least = right < this.#heap.length && this.#heap[right]!.wakeAt < this.#heap[left]!.wakeAt ? right : left
      const child = this.#heap[least]!
      if (child.wakeAt >= sleeper.wakeAt) break
      this.#heap[place] = child
      child.place = place
      place = least
    }
    this.#heap[place] = sleeper
    sleeper.place = place
  }
}
