import { type ParseArgsConfig, parseArgs } from 'node:util'
import { durationMs } from '../core/duration.js'

/** The command line is wrong: says how, and where to read on. */
export class UsageError extends Error {
  /** The command whose help says more; left out when there is none such. */
  readonly command: string | undefined
  constructor(message: string, command?: string) {
    super(message)
    this.name = 'UsageError'
    this.command = command
  }
}

type Options = NonNullable<ParseArgsConfig['options']>

/** The options that every command knows. */
export const COMMON: {
  readonly store: { readonly type: 'string' }
  readonly json: { readonly type: 'boolean' }
  readonly help: { readonly type: 'boolean'; readonly short: 'h' }
} = { store: { type: 'string' }, json: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } }

/** Takes a command's arguments apart, or says which one is wrong. */
export function takeApart<const T extends Options>(
  command: string,
  args: readonly string[],
  options: T,
): ReturnType<typeof parseArgs<{ options: T; allowPositionals: true; strict: true }>> {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    if (error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')) {
      throw new UsageError(firstSentence(error.message), command)
    }
    throw error
  }
}

/** A duration such as '10s'. */
export function duration(command: string, option: string, text: string): number {
  if (text === '0') return 0
  if (!/^\d+(\.\d+)?(ms|s|m|h)$/.test(text)) {
    throw new UsageError(
      `--${option}: ${JSON.stringify(text)} is not a duration. Write one such as 250ms, 30s, 5m or 1h.`,
      command,
    )
  }
  return durationMs(text, `--${option}`)
}

/** The one name that a command is about. */
export function oneName(command: string, positionals: readonly string[]): string {
  const [name, ...more] = positionals
  if (name === undefined) throw new UsageError('The name of a lock is missing.', command)
  if (more.length > 0) {
    throw new UsageError(
      `One name is enough: ${more.map((text) => JSON.stringify(text)).join(' ')} is too much.`,
      command,
    )
  }
  return name
}

/** At most one of these flags. */
export function atMostOne(command: string, flags: Readonly<Record<string, unknown>>): void {
  const given = Object.keys(flags).filter((key) => flags[key] !== undefined && flags[key] !== false)
  if (given.length > 1) {
    throw new UsageError(`${given.map((key) => `--${key}`).join(' and ')} do not go together. Choose one.`, command)
  }
}

/** Node's own messages go on with hints that are not about this command. */
function firstSentence(message: string): string {
  const [first = message] = message.split(/\. To specify|\n/)
  return first.endsWith('.') ? first : `${first}.`
}
