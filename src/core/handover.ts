import { ConfigError } from './errors.js'
import { KINDS, type LineKey } from './line.js'
import { checkName } from './name.js'
import type { Place } from './place.js'

/** The first field, so that a text of another release is told apart. */
const FORM = 2

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
  readonly renew: boolean
  /** What was left of them when the hold was let go of: its way to the adopter counts for neither. */
  readonly minHoldMs: number
  readonly maxHoldMs: number
  readonly owner: string
  readonly note?: string
}

/** Writes a ticket as text. Whoever has the text can go on with the hold: it is a secret. */
export function serializeTicket(place: Place, now: number): string {
  const { line, weight, capacity, options } = place.wish
  const { owner, note } = place.holder
  const maxHoldMs = Math.max(0, place.heldSince + options.maxHoldMs - now)
  const text = JSON.stringify([
    ...[FORM, line.kind, line.name, place.id, place.handle, String(place.order), weight, capacity],
    ...[place.ttlMs, options.graceMs, options.renew, place.keepMs(now), Number.isFinite(maxHoldMs) ? maxHoldMs : null],
    ...[owner, note ?? null],
  ])
  return Buffer.from(text).toString('base64url')
}

/** Reads such a text, or says that it is none. */
export function parseTicket(text: string): HandedOver {
  try {
    const fields: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    if (!Array.isArray(fields) || fields[0] !== FORM || fields.length !== 15) throw new TypeError('unknown form')
    const [, kind, name, id, handle, order, weight, capacity, ...rest] = fields as unknown[]
    const [ttlMs, graceMs, renew, minHoldMs, most, owner, note] = rest
    const maxHoldMs = most ?? Number.POSITIVE_INFINITY
    const known = KINDS.find((one) => one === kind)
    if (known === undefined) throw new TypeError('unknown kind')
    for (const number of [weight, capacity, ttlMs, graceMs, minHoldMs, maxHoldMs]) {
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
      renew: renew === true,
      minHoldMs: Number(minHoldMs),
      maxHoldMs: Number(maxHoldMs),
      owner: String(owner),
      ...(typeof note === 'string' ? { note } : undefined),
    }
  } catch (error) {
    throw new ConfigError('adopt: that is not a text made by serialize().', { cause: error })
  }
}
