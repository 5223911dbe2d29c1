import { micros, type Node } from './node.js'

/** So much above the servers' clocks (µs), that all of them give the floor itself and no second round is needed. */
const AHEAD = 20_000n

/**
 * Proposes orders. Servers that each drew from their own clock would nearly always differ, and every difference
 * costs a second round; a floor just above all clocks makes them give the same. A wrong guess costs that round, no more.
 */
export class Floors {
  readonly #nodes: readonly Node[]
  #highest = 0n

  constructor(nodes: readonly Node[]) {
    this.#nodes = nodes
  }

  /** Notes an order that was given. */
  seen(order: bigint): void {
    if (order > this.#highest) this.#highest = order
  }

  next(): bigint {
    const now = micros(performance.now())
    let floor = this.#highest + 1n
    for (const { clockLead } of this.#nodes) {
      if (clockLead !== undefined && now + clockLead + AHEAD > floor) floor = now + clockLead + AHEAD
    }
    this.#highest = floor
    return floor
  }
}
