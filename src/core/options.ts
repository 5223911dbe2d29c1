import { inspect } from 'node:util'
import type { Guarantees } from './backend.js'
import { type Duration, durationMs } from './duration.js'
import { ConfigError } from './errors.js'
import type { Lease } from './lease.js'

/** How to hold. Given to the client, a lock or a call; the nearest wins. */
export interface HoldOptions {
  /** How long the hold lasts without a renewal. Default 30 s. */
  readonly ttl?: Duration
  /** Keep renewing until released. Default true. */
  readonly renew?: boolean
  /** Stop renewing after this: a hung holder does not hold for ever. */
  readonly maxHold?: Duration
  /** The store frees the ticket this much later than the holder stops believing in it. Default 0. */
  readonly grace?: Duration
  /** A release before this keeps others out until then. Default 0. */
  readonly minHold?: Duration
  /** A name for the holder, shown in `view`. Default: random. */
  readonly owner?: string
  /** Joining drops this owner's earlier ticket (of another client) at once. Safe only with the fence. */
  readonly takeover?: boolean
  /** Inside `use` and `lead`, the same async context may take it again. */
  readonly reentrant?: boolean
  /** For `use`: 'throw' makes it reject with LockLostError when the hold was lost before `fn` ended. */
  readonly onLost?: 'signal' | 'throw'
  /** Small text shown in `view`. */
  readonly note?: string
  /** Guarantees that the store must give, else UnsupportedError before anything is taken. */
  readonly require?: Partial<Guarantees>
  /** Further processes of this machine that work under the hold: a store that notices a process's end waits for theirs too. */
  readonly also?: readonly number[]
}

/** Options of a call that never waits. */
export interface TryOptions extends HoldOptions {
  /** Explicit re-entry, without async context. */
  readonly within?: Lease
  /** How many permits of a semaphore. Default 1. */
  readonly permits?: number
}

/** Options of a call that may wait. */
export interface AcquireOptions extends TryOptions {
  /** How long to stay in line. Default: for ever. */
  readonly wait?: Duration
  /** Leaves the line, at once, when aborted; the call rejects with its reason. */
  readonly signal?: AbortSignal
}

/** Options given to a client or a lock: defaults for every call. */
export interface LockOptions extends HoldOptions {
  readonly wait?: Duration
}

/** Options read, checked and in milliseconds. */
export interface Resolved {
  readonly ttlMs: number
  readonly renew: boolean
  readonly maxHoldMs: number
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
  readonly graceMs: number
  readonly minHoldMs: number
  readonly owner: string | undefined
  readonly takeover: boolean
  readonly reentrant: boolean
  readonly within: Lease | undefined
  readonly onLost: 'signal' | 'throw'
  readonly note: string | undefined
  readonly require: Partial<Guarantees> | undefined
  readonly permits: number
  readonly also: readonly number[] | undefined
}

export const DEFAULTS: Resolved = {
  ttlMs: 30_000,
  renew: true,
  maxHoldMs: Number.POSITIVE_INFINITY,
  waitMs: Number.POSITIVE_INFINITY,
  signal: undefined,
  graceMs: 0,
  minHoldMs: 0,
  owner: undefined,
  takeover: false,
  reentrant: false,
  within: undefined,
  onLost: 'signal',
  note: undefined,
  require: undefined,
  permits: 1,
  also: undefined,
}

const LONGEST_OWNER_BYTES = 256
const LONGEST_NOTE_BYTES = 1_024

type Mutable = { -readonly [K in keyof Resolved]: Resolved[K] }

/** How each option is read; an option that is not here is unknown. */
const READERS: Record<string, (value: unknown, into: Mutable) => void> = {
  ttl: (value, into) => void (into.ttlMs = durationMs(value, 'ttl')),
  renew: (value, into) => void (into.renew = flag(value, 'renew')),
  maxHold: (value, into) => void (into.maxHoldMs = durationMs(value, 'maxHold')),
  wait: (value, into) => void (into.waitMs = value === Number.POSITIVE_INFINITY ? value : durationMs(value, 'wait')),
  signal: (value, into) => void (into.signal = abortSignal(value)),
  grace: (value, into) => void (into.graceMs = durationMs(value, 'grace')),
  minHold: (value, into) => void (into.minHoldMs = durationMs(value, 'minHold')),
  owner: (value, into) => void (into.owner = text(value, 'owner', LONGEST_OWNER_BYTES)),
  takeover: (value, into) => void (into.takeover = flag(value, 'takeover')),
  reentrant: (value, into) => void (into.reentrant = flag(value, 'reentrant')),
  within: (value, into) => void (into.within = value as Lease),
  onLost: (value, into) => void (into.onLost = onLost(value)),
  note: (value, into) => void (into.note = text(value, 'note', LONGEST_NOTE_BYTES, true)),
  require: (value, into) => void (into.require = requirement(value)),
  permits: (value, into) => void (into.permits = permits(value)),
  also: (value, into) => void (into.also = pids(value)),
}

/** Lays options over the defaults; throws ConfigError for what is wrong, before anything is taken. */
export function resolveOptions(base: Resolved, options: object | undefined, also: readonly string[] = []): Resolved {
  if (options === undefined) return base
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    const what = options === null ? 'null' : Array.isArray(options) ? 'a list' : typeof options
    throw new ConfigError(`Options are an object, not ${what}.`)
  }
  const into: Mutable = { ...base }
  for (const [key, value] of Object.entries(options)) {
    const read = Object.hasOwn(READERS, key) ? READERS[key] : undefined
    if (read === undefined) {
      if (also.includes(key)) continue
      throw new ConfigError(`There is no option '${key}'. Known: ${[...Object.keys(READERS), ...also].join(', ')}.`)
    }
    if (value !== undefined) read(value, into)
  }
  if (into.takeover && into.owner === undefined) {
    throw new ConfigError(
      "takeover needs an owner: { owner: 'worker-1', takeover: true } names whose earlier ticket is dropped.",
    )
  }
  return into
}

function flag(value: unknown, option: string): boolean {
  if (typeof value !== 'boolean') throw new ConfigError(`${option} is true or false, not ${inspect(value)}.`)
  return value
}

function text(value: unknown, option: string, most: number, mayBeEmpty = false): string {
  if (typeof value !== 'string') throw new ConfigError(`${option} is a text, not ${typeof value}.`)
  if (value === '' && !mayBeEmpty) throw new ConfigError(`${option} is empty.`)
  if (Buffer.byteLength(value) > most) throw new ConfigError(`${option} is longer than ${most} bytes.`)
  if (value.includes('\0') || !value.isWellFormed()) {
    throw new ConfigError(`${option} has a NUL character or half of a surrogate pair, which not every store can keep.`)
  }
  return value
}

function abortSignal(value: unknown): AbortSignal {
  if (!(value instanceof AbortSignal)) throw new ConfigError('signal is an AbortSignal.')
  return value
}

function onLost(value: unknown): 'signal' | 'throw' {
  if (value !== 'signal' && value !== 'throw') throw new ConfigError("onLost is 'signal' or 'throw'.")
  return value
}

function requirement(value: unknown): Partial<Guarantees> {
  if (typeof value !== 'object' || value === null)
    throw new ConfigError("require is an object such as { fence: 'strict' }.")
  return value
}

function permits(value: unknown): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 1) {
    throw new ConfigError(`permits is a whole number of 1 or more, not ${inspect(value)}.`)
  }
  return value
}

/** Process ids, or an error that says so. */
export function pids(value: unknown): readonly number[] {
  if (!Array.isArray(value) || !value.every((pid) => Number.isSafeInteger(pid) && pid > 0)) {
    throw new ConfigError('also is a list of process ids.')
  }
  return value as readonly number[]
}

/** Before anything is taken for it. */
export function checkFunction(fn: unknown, call: string): void {
  if (typeof fn !== 'function') throw new ConfigError(`${call} needs a function: what to do while it is held.`)
}
