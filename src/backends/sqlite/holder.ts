import type { Holder } from '../../core/backend.js'
import { identify, SELF } from './process.js'

/** Who holds, as text for the file. */
export function holderText(holder: Holder): string {
  return JSON.stringify(holder)
}

export function readHolder(text: string): Holder {
  return JSON.parse(text) as Holder
}

/** A holder of this very process that names no other: the usual one. */
export function isPlain(holder: Holder): boolean {
  return holder.pid === process.pid && holder.also === undefined
}

/**
 * The processes whose end is the ticket's end, as `tickets.processes` keeps them. A holder that is not this
 * process (let go of, to be adopted by another) is bound to none: only its lease counts.
 */
export function processesOf(holder: Holder): string | null {
  if (isPlain(holder)) return null
  const own = holder.pid === process.pid ? [SELF] : []
  const others = (holder.also ?? []).map(identify).filter((text) => text !== undefined)
  return [...own, ...others].join(' ')
}
