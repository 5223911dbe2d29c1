import type { Holder } from '../../core/backend.js'

/** A holder as its column has it. Owner and client come first: a takeover compares the beginning. */
export function encodeHolder(holder: Holder): string {
  return JSON.stringify([holder.owner, holder.client, holder.host, holder.pid, holder.note ?? null])
}

export function decodeHolder(value: string): Holder {
  const [owner, client, host, pid, note] = JSON.parse(value) as [string, string, string, number, string | null]
  return { owner, client, host, pid, ...(note === null ? undefined : { note }) }
}
