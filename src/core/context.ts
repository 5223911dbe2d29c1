import { AsyncLocalStorage } from 'node:async_hooks'
import type { Hold } from './hold.js'
import { isSameLine, type LineKey } from './line.js'

/** The holds that the running async context is inside of, innermost first. Made by `use` and `lead` only. */
interface Inside {
  readonly hold: Hold
  readonly outer: Inside | undefined
}

const storage = new AsyncLocalStorage<Inside>()

/** Runs a function inside a hold: what it awaits knows that it holds it. */
export function runInside<T>(holds: readonly Hold[], fn: () => T): T {
  let inside = storage.getStore()
  for (const hold of holds) inside = { hold, outer: inside }
  return inside === undefined ? fn() : storage.run(inside, fn)
}

/** This context's own hold on a line of that client, if it is inside one that is not over. */
export function heldHere(desk: Hold['desk'], line: LineKey): Hold | undefined {
  for (let inside = storage.getStore(); inside !== undefined; inside = inside.outer) {
    const { hold } = inside
    if (hold.desk === desk && isSameLine(hold.place.wish.line, line) && !hold.over) return hold
  }
  return undefined
}
