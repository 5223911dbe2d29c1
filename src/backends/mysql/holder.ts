import type { Holder } from '../../core/backend.js'

let last: Holder | undefined
let lastText = ''

/** A holder as its column has it. Owner and client come first: a takeover compares the beginning. */
export function encodeHolder(holder: Holder): string {
  // A client's tickets mostly have one holder, each an object of its own.
  if (last !== undefined && isSame(holder, last)) return lastText
  last = holder
  lastText = JSON.stringify([holder.owner, holder.client, holder.host, holder.pid, holder.note ?? null])
  return lastText
}

function isSame(a: Holder, b: Holder): boolean {
  return a.owner === b.owner && a.client === b.client && a.host === b.host && a.pid === b.pid && a.note === b.note
}

export function decodeHolder(value: string): Holder {
  const [owner, client, host, pid, note] = JSON.parse(value) as [string, string, string, number, string | null]
  return { owner, client, host, pid, ...(note === null ? undefined : { note }) }
}
