import { LockError, type LockErrorCode } from '../core/errors.js'
import { UsageError } from './arguments.js'
import { EXIT } from './exit-codes.js'

/** Writes to stdout, and waits until a slow reader has taken it. */
export async function write(text: string): Promise<void> {
  if (process.stdout.write(text)) return
  await new Promise((resolve) => process.stdout.once('drain', resolve))
}

/** Writes one line for people to stderr, where it does not mix with what programs read. */
export function say(text: string): void {
  process.stderr.write(`holdfast: ${text}\n`)
}

/** Writes one JSON value on one line. Tokens (bigint) are decimal text: JavaScript's numbers end at 2^53. */
export function jsonLine(value: unknown): string {
  return `${JSON.stringify(value, (_key, field: unknown) => (typeof field === 'bigint' ? field.toString() : field))}\n`
}

/**
 * A reader that has gone (`holdfast ls | head -1`) is no error: end as quietly as a program that SIGPIPE ended.
 * What `run` says on stderr must never end a command, so a stderr that has gone is ignored.
 */
export function surviveClosedPipes(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    process.exit(error.code === 'EPIPE' ? 141 : EXIT.internal)
  })
  process.stderr.on('error', () => {})
}

/** What went wrong, in one line, with the next step and without secrets; and how to end. */
export function explain(error: unknown, store: string | undefined): { text: string; exitCode: number } {
  if (error instanceof UsageError) {
    const help = error.command === undefined ? 'holdfast --help' : `holdfast ${error.command} --help`
    return { text: `${oneLine(error.message)} See: ${help}`, exitCode: EXIT.usage }
  }
  if (error instanceof LockError)
    return { text: redact(oneLine(error.message), store), exitCode: EXIT_CODES[error.code] }
  const message = error instanceof Error ? error.message : String(error)
  return { text: redact(`something went wrong that should not: ${oneLine(message)}`, store), exitCode: EXIT.internal }
}

const EXIT_CODES: Record<LockErrorCode, number> = {
  CONFIG: EXIT.usage,
  UNSUPPORTED: EXIT.usage,
  BACKEND: EXIT.unavailable,
  CLOSED: EXIT.unavailable,
  LOCK_TIMEOUT: EXIT.busy,
  LOCK_LOST: EXIT.lost,
  DEADLOCK: EXIT.internal,
}

function oneLine(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ').trim()
}

/** Takes out what a client library may have put into its message: the store's URL, its password. */
export function redact(text: string, store: string | undefined): string {
  const url = store ?? process.env['HOLDFAST_URL']
  const secrets: string[] = []
  if (url !== undefined) {
    const credentials = /^[^:]+:\/\/([^/?#]*)@/.exec(url)?.[1]
    // A user name alone is no secret, and may be a word of the message.
    const password = credentials?.includes(':') ? credentials.slice(credentials.indexOf(':') + 1) : undefined
    for (const secret of [password, password === undefined ? undefined : tryDecode(password)]) {
      if (secret !== undefined && secret !== '') secrets.push(secret)
    }
  }
  let out = text
  for (const secret of secrets) out = out.replaceAll(secret, '***')
  return out.replaceAll(/(\w+:\/\/)[^\s/@:]*:[^\s/@]*@/g, '$1***@')
}

function tryDecode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    // Not an escape: then the text itself is the secret, and is replaced as it stands.
    return undefined
  }
}
