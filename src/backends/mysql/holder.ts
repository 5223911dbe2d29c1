import type { Holder } from '../../core/backend.js'
import { rememberingLast } from '../../core/holder.js'

/** A holder as its column has it. Owner and client come first: a takeover compares the beginning. */
export const encodeHolder: (holder: Holder) => string = rememberingLast(({ owner, client, host, pid, note }) =>
  JSON.stringify([owner, client, host, pid, note ?? null]),
)

export function decodeHolder(value: string): Holder {
  const [owner, client, host, pid, note] = JSON.parse(value) as [string, string, string, number, string | null]
  return { owner, client, host, pid, ...(note === null ? undefined : { note }) }
}
