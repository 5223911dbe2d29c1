import { openMigration } from '../connect.js'
import { COMMON, takeApart, UsageError } from './arguments.js'
import { EXIT } from './exit-codes.js'
import { HELP } from './help.js'
import { jsonLine, say, write } from './output.js'

/** `holdfast migrate`: makes what a store must have, or prints it for whoever may create. */
export async function migrate(args: readonly string[]): Promise<number> {
  const { values, positionals } = takeApart('migrate', args, { ...COMMON, print: { type: 'boolean' } })
  if (values.help) {
    await write(HELP['migrate']!)
    return EXIT.ok
  }
  if (positionals.length > 0) throw new UsageError('migrate takes no names, only --store URL.', 'migrate')
  const migration = await openMigration(values.store)
  if (migration === undefined) {
    say('this store needs nothing made.')
    return EXIT.ok
  }
  if (values.print) {
    await write(values.json ? jsonLine({ sql: migration.print() }) : migration.print())
    return EXIT.ok
  }
  await migration.run()
  say('the schema is as this version needs it.')
  return EXIT.ok
}
