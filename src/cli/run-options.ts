import type { Kind } from '../core/line.js'
import { checkName } from '../core/name.js'
import { atMostOne, COMMON, duration, oneName, takeApart, UsageError } from './arguments.js'
import { shellWord } from './text.js'

/** What `holdfast run` was asked to do, checked. */
export interface RunOptions {
  readonly name: string
  readonly mode:
    | { readonly kind: 'mutex' | 'read' | 'write' }
    | { readonly kind: 'permits'; readonly of: number; readonly permits: number }
  /** Undefined: for as long as it takes. 0: not at all. */
  readonly waitMs: number | undefined
  readonly ttlMs: number
  readonly graceMs: number
  readonly killAfterMs: number
  readonly owner: string | undefined
  readonly note: string | undefined
  readonly json: boolean
  readonly store: string | undefined
  readonly command: string
  readonly args: readonly string[]
}

/** The kind of line that a mode stands in. */
export function kindOf(mode: RunOptions['mode']): Kind {
  return mode.kind === 'mutex' ? 'mutex' : mode.kind === 'permits' ? 'semaphore' : 'rw'
}

const DEFAULT_TTL = '30s'
const DEFAULT_GRACE = '5s'
const LONGEST_DEFAULT_KILL_AFTER_MS = 5_000

/** Below these, a busy machine would stop commands for no better reason than being busy. */
const SHORTEST_TTL_MS = 1_000
const SHORTEST_GRACE_MS = 250

/** Reads the arguments of `holdfast run`; undefined when help was asked for. */
export function readRunOptions(args: readonly string[]): RunOptions | undefined {
  const split = args.indexOf('--')
  const own = split === -1 ? args : args.slice(0, split)
  const { values, positionals } = takeApart('run', own, {
    ...COMMON,
    wait: { type: 'string' },
    'no-wait': { type: 'boolean' },
    ttl: { type: 'string' },
    grace: { type: 'string' },
    'kill-after': { type: 'string' },
    read: { type: 'boolean' },
    write: { type: 'boolean' },
    permits: { type: 'string' },
    owner: { type: 'string' },
    note: { type: 'string' },
  })
  if (values.help) return undefined
  const [name, ...more] = positionals
  if (name === undefined) throw new UsageError('The name of a lock is missing.', 'run')
  if (split === -1) {
    throw new UsageError(
      `Put the command after two dashes: holdfast run ${shellWord(name)} -- ${more.map(shellWord).join(' ') || 'COMMAND'}.`,
      'run',
    )
  }
  oneName('run', positionals)
  const [command, ...commandArgs] = args.slice(split + 1)
  if (command === undefined || command === '') throw new UsageError("There is no command after '--'.", 'run')
  atMostOne('run', { wait: values.wait, 'no-wait': values['no-wait'] })
  atMostOne('run', { read: values.read, write: values.write, permits: values.permits })
  const times = readTimes(values)
  return {
    name: checkName(name),
    mode: values.read
      ? { kind: 'read' }
      : values.write
        ? { kind: 'write' }
        : values.permits !== undefined
          ? { kind: 'permits', ...readPermits(values.permits) }
          : { kind: 'mutex' },
    waitMs: values['no-wait'] ? 0 : values.wait === undefined ? undefined : duration('run', 'wait', values.wait),
    ...times,
    owner: values.owner,
    note: values.note,
    json: values.json ?? false,
    store: values.store,
    command,
    args: commandArgs,
  }
}

function readTimes(values: {
  ttl?: string
  grace?: string
  'kill-after'?: string
}): Pick<RunOptions, 'ttlMs' | 'graceMs' | 'killAfterMs'> {
  const ttlMs = duration('run', 'ttl', values.ttl ?? DEFAULT_TTL)
  if (ttlMs < SHORTEST_TTL_MS) {
    throw new UsageError(
      `--ttl: at least ${SHORTEST_TTL_MS} ms, or a busy moment of this machine costs the lock.`,
      'run',
    )
  }
  const graceMs = duration('run', 'grace', values.grace ?? DEFAULT_GRACE)
  if (graceMs < SHORTEST_GRACE_MS) {
    throw new UsageError(
      `--grace: at least ${SHORTEST_GRACE_MS} ms. It is the time in which the command is certain to be stopped before the lock passes on.`,
      'run',
    )
  }
  // The lock is renewed at a third of its ttl: with a third left to stop in, one renewal may fail and the next still save it.
  const killAfterMs =
    values['kill-after'] === undefined
      ? Math.min(LONGEST_DEFAULT_KILL_AFTER_MS, ttlMs / 3)
      : duration('run', 'kill-after', values['kill-after'])
  if (killAfterMs > ttlMs / 2) {
    throw new UsageError(
      '--kill-after: at most half of --ttl, or SIGTERM comes before a renewal had its chance.',
      'run',
    )
  }
  return { ttlMs, graceMs, killAfterMs }
}

function readPermits(text: string): { of: number; permits: number } {
  const match = /^(\d{1,9})\/(\d{1,9})$/.exec(text)
  const permits = Number(match?.[1])
  const of = Number(match?.[2])
  if (match === null || permits < 1 || of < 1) {
    throw new UsageError(
      `--permits: ${JSON.stringify(text)} is not of the form K/N, such as 1/4: take one of four.`,
      'run',
    )
  }
  if (permits > of)
    throw new UsageError(`--permits: ${permits} of ${of} can never be had. Ask for ${of} at most.`, 'run')
  return { of, permits }
}
