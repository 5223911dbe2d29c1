import { ConfigError } from './errors.js'
import { KINDS, type LineKey } from './line.js'
import { checkName } from './name.js'
import type { Place } from './place.js'

/** What another process needs to go on with a ticket. */
export interface HandedOver {
  readonly line: LineKey
  readonly id: string
  readonly handle: string
  readonly order: bigint
  readonly weight: number
  readonly capacity: number
  readonly ttlMs: number
  readonly graceMs: number
  readonly owner: string
  readonly note?: string
}

/** Writes a ticket as text. Whoever has the text can go on with the hold: it is a secret. */
export function serializeTicket(place: Place): string {
  const { line, weight, capacity, options } = place.wish
  const { owner, note } = place.holder
  const fields = [1, line.kind, line.name, place.id, place.handle, String(place.order), weight, capacity]
  const text = JSON.stringify([...fields, place.ttlMs, options.graceMs, owner, note ?? null])
  return Buffer.from(text).toString('base64url')
}

/** Reads such a text, or says that it is none. */
export function parseTicket(text: string): HandedOver {
  try {
    const fields: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    if (!Array.isArray(fields) || fields[0] !== 1 || fields.length !== 12) throw new TypeError('unknown form')
    const [, kind, name, id, handle, order, weight, capacity, ttlMs, graceMs, owner, note] = fields as unknown[]
    const known = KINDS.find((one) => one === kind)
    if (known === undefined) throw new TypeError('unknown kind')
    for (const number of [weight, capacity, ttlMs, graceMs]) {
      if (typeof number !== 'number' || number < 0) throw new TypeError('not a number')
    }
    for (const part of [id, handle, order, owner]) {
      if (typeof part !== 'string' || part === '') throw new TypeError('not a text')
    }
    return {
      line: { kind: known, name: checkName(name) },
      id: String(id),
      handle: String(handle),
      order: BigInt(String(order)),
      weight: Number(weight),
      capacity: Number(capacity),
      ttlMs: Number(ttlMs),
      graceMs: Number(graceMs),
      owner: String(owner),
      ...(typeof note === 'string' ? { note } : undefined),
    }
  } catch (error) {
    throw new ConfigError('adopt: that is not a text made by serialize().', { cause: error })
  }
}
