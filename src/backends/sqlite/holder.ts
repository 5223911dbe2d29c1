import type { Holder } from '../../core/backend.js'
import { identify, SELF } from './process.js'

/** This client as the file knows it. */
export interface Card {
  /** The key of its row. */
  readonly key: number
  /** The name of its inbox. */
  readonly inbox: string
  /** Who holds a ticket that says nothing else. */
  readonly holder: Holder
}

/** Who holds, as text for the file. */
export function holderText(holder: Holder): string {
  return JSON.stringify(holder)
}

export function readHolder(text: string): Holder {
  return text === '' ? { owner: '', client: '', host: '', pid: 0 } : (JSON.parse(text) as Holder)
}

/** Whether the holder of a ticket is what the client's card says, and need not be written again. */
export function isAsOnCard(holder: Holder, { holder: card }: Card): boolean {
  return (
    holder.owner === card.owner &&
    holder.client === card.client &&
    holder.host === card.host &&
    holder.pid === card.pid &&
    holder.note === undefined &&
    holder.also === undefined
  )
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
