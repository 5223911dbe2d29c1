import type { Guarantees } from './backend.js'
import { ConfigError, UnsupportedError } from './errors.js'
import type { Resolved } from './options.js'

/** Where more than yes or no can be promised, the promises from weak to strong. */
const LADDERS = {
  scope: ['process', 'machine', 'network'],
  order: ['none', 'fifo'],
  wake: ['poll', 'push'],
  fence: ['none', 'clock', 'strict'],
  minHold: ['process', 'store'],
} as const

/** Throws UnsupportedError when a store promises less than is required of it. */
export function checkRequired(store: string, given: Guarantees, required: Partial<Guarantees> | undefined): void {
  if (required === undefined) return
  for (const [key, wanted] of Object.entries(required)) {
    if (wanted === undefined || meets(given, key, wanted)) continue
    const has = given[key as keyof Guarantees]
    throw new UnsupportedError(
      `The ${store} store does not give ${key}: ${show(wanted)} (it gives ${show(has)}). ${given.sentence}`,
    )
  }
}

/** Throws when the store cannot keep such a lease. */
export function checkLease(store: string, given: Guarantees, options: Resolved): void {
  if (options.ttlMs < given.minTtlMs && given.fixedTtl !== true) {
    throw new ConfigError(
      `ttl: ${options.ttlMs} ms is shorter than the ${store} store can keep. Use ${given.minTtlMs} ms or more.`,
    )
  }
  if (given.maxTtlMs !== undefined && options.ttlMs + options.graceMs > given.maxTtlMs) {
    throw new ConfigError(
      `ttl: ${options.ttlMs} ms (and grace) is longer than this ${store} store allows. Use ${given.maxTtlMs} ms at most.`,
    )
  }
  if (given.maxTtlMs !== undefined && options.minHoldMs > given.maxTtlMs) {
    throw new ConfigError(
      `minHold: ${options.minHoldMs} ms is longer than this ${store} store can keep others out. Use ${given.maxTtlMs} ms at most.`,
    )
  }
  if (given.lease === 'session' && options.graceMs >= options.ttlMs) {
    throw new ConfigError(
      `grace: on the ${store} store the grace is taken from the ttl, so it must be shorter than the ttl.`,
    )
  }
}

function meets(given: Guarantees, key: string, wanted: unknown): boolean {
  if (key in LADDERS) {
    const ladder: readonly unknown[] = LADDERS[key as keyof typeof LADDERS]
    if (!ladder.includes(wanted))
      throw new ConfigError(`require.${key} is one of ${ladder.join(', ')}, not ${show(wanted)}.`)
    return ladder.indexOf(given[key as keyof typeof LADDERS]) >= ladder.indexOf(wanted)
  }
  switch (key) {
    case 'lease':
      return given.lease === wanted
    case 'handover':
    case 'atomicGroup':
      return given[key] || wanted === false
    case 'fixedTtl':
      return (given.fixedTtl ?? false) === wanted
    case 'kinds':
    case 'survives': {
      const has: readonly string[] = given[key]
      return Array.isArray(wanted) && wanted.every((one) => has.includes(String(one)))
    }
    case 'minTtlMs':
    case 'ttlGranularityMs':
      return given[key] <= Number(wanted)
    case 'maxTtlMs':
      return given.maxTtlMs === undefined || given.maxTtlMs >= Number(wanted)
    case 'sentence':
      return true
    default:
      throw new ConfigError(`There is no guarantee '${key}'. Known: ${Object.keys(given).join(', ')}.`)
  }
}

function show(value: unknown): string {
  return typeof value === 'string' ? `'${value}'` : (JSON.stringify(value) ?? 'nothing')
}
