import { BackendError } from '../../core/errors.js'

/** Answers of Redis that will be different in a while: it starts, fails over, moves a slot or runs a long script. */
const PASSING = new Set([
  'READONLY',
  'LOADING',
  'MASTERDOWN',
  'TRYAGAIN',
  'CLUSTERDOWN',
  'MOVED',
  'ASK',
  'NOREPLICAS',
  'BUSY',
  'UNBLOCKED',
  'NOSCRIPT',
])

const ADVICE: Readonly<Record<string, string>> = {
  NOAUTH: 'Put the password into the URL or the client.',
  WRONGPASS: 'Check the user and the password.',
  NOPERM: "Allow the user what docs/backends/redis.md lists under 'Rights'.",
  OOM: 'Its memory is full: raise maxmemory or free some. Releases and renewals still work.',
  MISCONF: 'It cannot write its snapshot to disk and refuses writes: look at its log.',
  WRONGTYPE: 'A key of that name is in use for something else: choose another prefix.',
}

/** What a script answered for one item instead of a standing. */
export function itemFailure(text: string, doing: string): BackendError {
  return failure(new Error(/^[A-Z]{2,} /.test(text) ? text : `ERR ${text}`), doing)
}

/** What went wrong at Redis, as an error of ours: unknown for the caller, and whether to ask again. */
export function failure(error: unknown, doing: string): BackendError {
  if (error instanceof BackendError) return error
  const message = error instanceof Error ? error.message : String(error)
  const word = wordOf(message)
  const retryable = word === undefined || PASSING.has(word)
  const advice =
    ADVICE[word ?? ''] ?? (retryable ? 'Asked again, it may answer.' : 'Asked again, it will say the same.')
  return new BackendError(`Redis failed to ${doing}: ${message}${/[.!?]$/.test(message) ? '' : '.'} ${advice}`, {
    retryable,
    cause: withoutCommand(error),
  })
}

/** The word by which Redis says what kind of error it is. */
function wordOf(message: string): string | undefined {
  if (message.includes("can't run this command")) return 'NOPERM'
  // The last ticket of a line was taken away while its slot is on its way to another node: there, it will be answered.
  if (message.includes('non local key')) return 'ASK'
  // Before version 7 a script's error is told as text: 'ERR Error running script (…): @user_script: 14: -READONLY …'.
  const inScript = /@user_script: ?\d+: -([A-Z]{2,}) /.exec(message)?.[1]
  return inScript ?? /^-?([A-Z]{2,})(?: |$)/.exec(message)?.[1]
}

/** ioredis notes on its errors which command they are about, and one of the words of AUTH is the password. */
function withoutCommand(error: unknown): unknown {
  if (!(error instanceof Error) || !('command' in error)) return error
  const { name, message, stack } = error
  return Object.assign(new Error(message), { name, stack })
}
