import { ConfigError } from './errors.js'

/** A number of milliseconds, or a text such as '250ms', '30s', '5m', '1h'. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h'}`

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Longer than any hold or wait that is meant: 30 days. A larger number is nearly always a unit mistaken. */
const LONGEST_MS = 30 * 24 * UNIT_MS['h']!

/** Reads a duration, or says what is wrong with it. */
export function durationMs(value: unknown, option: string): number {
  const ms = typeof value === 'string' ? textMs(value) : value
  if (typeof ms !== 'number' || Number.isNaN(ms)) {
    throw new ConfigError(
      `${option}: ${show(value)} is not a duration. Write a number of milliseconds or a text such as '250ms', '30s', '5m', '1h'.`,
    )
  }
  if (ms < 0) throw new ConfigError(`${option}: ${show(value)} is negative. Write a duration of 0 or more.`)
  if (ms > LONGEST_MS) {
    throw new ConfigError(`${option}: ${show(value)} is longer than 30 days. Is the unit right?`)
  }
  return ms
}

function textMs(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text)
  return match ? Number(match[1]) * UNIT_MS[match[2]!]! : undefined
}

function show(value: unknown): string {
  if (typeof value === 'string') return `'${value}'`
  return typeof value === 'object' && value !== null ? 'an object' : String(value)
}
