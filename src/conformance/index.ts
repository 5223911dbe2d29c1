/**
 * The cases that every backend passes, as data: `{ name, requires, run(context) }`.
 * Use them with any test runner, also for a backend of your own:
 *
 *     for (const one of cases) if (applies(one, guarantees, subject)) test(one.name, () => runCase(one, subject))
 */
import type { Case } from './case.js'
import { fence } from './cases/fence.js'
import { grant } from './cases/grant.js'
import { group } from './cases/group.js'
import { handover } from './cases/handover.js'
import { lease } from './cases/lease.js'
import { life } from './cases/life.js'
import { look } from './cases/look.js'
import { mutex } from './cases/mutex.js'
import { names } from './cases/names.js'
import { portCases } from './cases/port.js'
import { processes } from './cases/processes.js'
import { reentry } from './cases/reentry.js'

export type { Case, Context, Port, Subject } from './case.js'
export { applies, runCase } from './runner.js'
export { startTaker, type Taker } from './takers.js'

export const cases: readonly Case[] = [
  ...grant,
  ...mutex,
  ...fence,
  ...portCases,
  ...lease,
  ...group,
  ...reentry,
  ...handover,
  ...look,
  ...names,
  ...life,
  ...processes,
]
