#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { UsageError } from './arguments.js'
import { evict } from './evict.js'
import { EXIT } from './exit-codes.js'
import { HELP } from './help.js'
import { lab } from './lab.js'
import { ls } from './ls.js'
import { migrate } from './migrate.js'
import { explain, say, surviveClosedPipes, write } from './output.js'
import { run } from './run.js'
import { show } from './show.js'
import { top } from './top.js'

const COMMANDS: Readonly<Record<string, (args: readonly string[]) => Promise<number>>> = {
  run,
  ls,
  show,
  evict,
  top,
  migrate,
  lab,
  help,
}

async function main([command, ...args]: readonly string[]): Promise<number> {
  if (command === undefined) {
    process.stderr.write(HELP['']!)
    return EXIT.usage
  }
  if (command === '--help' || command === '-h') return await help([])
  if (command === '--version' || command === '-V') {
    const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
      version: string
    }
    await write(`${manifest.version}\n`)
    return EXIT.ok
  }
  const found = Object.hasOwn(COMMANDS, command) ? COMMANDS[command] : undefined
  if (found === undefined)
    throw new UsageError(`There is no command ${JSON.stringify(command)}. Known: ${Object.keys(COMMANDS).join(', ')}.`)
  return await found(args)
}

async function help([command = '']: readonly string[]): Promise<number> {
  const text = Object.hasOwn(HELP, command) ? HELP[command] : undefined
  if (text === undefined) throw new UsageError(`There is no help on ${JSON.stringify(command)}.`)
  await write(text)
  return EXIT.ok
}

surviveClosedPipes()
const args = process.argv.slice(2)
try {
  // Not by `process.exitCode`: a store's socket that does not want to close must not keep a finished command.
  process.exit(await main(args))
} catch (error) {
  const { text, exitCode } = explain(error, storeOf(args))
  say(text)
  process.exit(exitCode)
}

/** The URL given by --store, only to keep its password out of messages. */
function storeOf(args: readonly string[]): string | undefined {
  const at = args.findIndex((arg) => arg === '--store' || arg.startsWith('--store='))
  return at === -1 ? undefined : args[at] === '--store' ? args[at + 1] : args[at]!.slice('--store='.length)
}
