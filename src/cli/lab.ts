import { existsSync } from 'node:fs'
import { UsageError } from './arguments.js'
import { EXIT } from './exit-codes.js'
import { HELP } from './help.js'
import { say, write } from './output.js'

/** The lab is built beside the library, from its own folder: it starts real servers, which a library does not. */
const LAB = new URL('../../build/lab/main.js', import.meta.url)

interface LabModule {
  lab(args: readonly string[]): Promise<number>
  readonly LabUsageError: new (message: string) => Error
}

/** `holdfast lab`: plays lock recipes in situations where something goes wrong. */
export async function lab(args: readonly string[]): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    await write(HELP['lab']!)
    return EXIT.ok
  }
  if (!existsSync(LAB)) {
    say('The lab is not built here. In a checkout of holdfast, run: npm run build:tools')
    return EXIT.unavailable
  }
  const found = (await import(LAB.href)) as LabModule
  try {
    return await found.lab(args)
  } catch (error) {
    if (error instanceof found.LabUsageError) throw new UsageError(error.message, 'lab')
    throw error
  }
}
