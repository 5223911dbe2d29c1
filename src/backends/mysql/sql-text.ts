import { crc32 } from 'node:zlib'
import type { Kind, LineKey } from '../../core/line.js'

/** Printable ASCII without the quote, the backslash and the question mark: means the same in any sql_mode and charset. */
const PLAIN = /^[ -&(->@-[\]-~]*$/

/**
 * A value as a literal. What is plain goes in as it is, everything else as hexadecimal:
 * so no value can be read as SQL.
 */
export function text(value: string): string {
  return PLAIN.test(value) ? `_binary'${value}'` : `x'${Buffer.from(value, 'utf8').toString('hex')}'`
}

export function texts(values: readonly string[]): string {
  return values.map(text).join(',')
}

/** A number as a literal. Nothing but a safe integer ever gets through. */
export function integer(value: number): string {
  const whole = Math.round(value)
  if (!Number.isSafeInteger(whole)) throw new RangeError(`${value} is not a safe integer`)
  return String(whole)
}

/** The server's clock: in UTC, since local time folds, and fixed per statement, so read in one after the lock. */
export const NOW = 'UTC_TIMESTAMP(6)'

/** A century: far beyond any ttl, and within what DATETIME can hold. */
const LONGEST_MS = 100 * 365 * 86_400_000

/** The server's time so many ms from now. */
export function fromNow(ms: number): string {
  return `${NOW} + INTERVAL ${micros(ms)} MICROSECOND`
}

export function micros(ms: number): string {
  return integer(Math.min(Math.max(ms, 0), LONGEST_MS) * 1_000)
}

const LETTERS: Record<Kind, string> = { mutex: 'm', rw: 'r', semaphore: 's' }

/** A line as the `line` column has it: the kind's letter and the name, compared byte by byte. */
export function lineValue(line: LineKey): string {
  return `${LETTERS[line.kind]}:${line.name}`
}

/** The line that a value of the `line` column stands for. */
export function lineOf(value: string): LineKey {
  const letter = value[0]
  const kind: Kind = letter === 'm' ? 'mutex' : letter === 'r' ? 'rw' : 'semaphore'
  return { kind, name: value.slice(2) }
}

/** How many rows of locks there are. So many that two batches of a hundred lines seldom meet in one. */
export const STRIPES = 65_536

/** The row whose lock stands for a line, as SQL has it too: `CRC32(line) & 65535`. */
export function stripeOf(line: string): number {
  return crc32(line) & (STRIPES - 1)
}
