import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { allRecipes, allSituations } from './catalogue.js'
import { expectation, isExpected } from './expectations.js'
import type { Recipe } from './recipe.js'
import { page } from './report/page.js'
import { summary } from './report/summary.js'
import { type Cell, runMatrix } from './run.js'
import type { Situation } from './situation.js'
import { Terminal } from './terminal.js'

/** The command line is wrong. */
export class LabUsageError extends Error {}

/** Plays what is asked for, prints the verdicts and writes the report. Resolves with the exit status: 1 when a cell is not as expected. */
export async function lab(args: readonly string[]): Promise<number> {
  const { values, positionals } = takeApart(args)
  const recipes = choose(await allRecipes(), positionals, 'recipe')
  const situations = choose(await allSituations(), values.situation ?? [], 'situation')
  if (values.list === true) {
    for (const { name, title } of [...recipes, ...situations]) process.stdout.write(`${name.padEnd(36)} ${title}\n`)
    return 0
  }
  // A recipe of which nobody has said what to expect: better told now than in some minutes.
  for (const recipe of recipes) for (const { name } of situations) expectation(recipe, name)
  const seed = wholeNumber('seed', values.seed ?? '1')
  const jobs = Math.max(1, wholeNumber('jobs', values.jobs ?? '4'))
  const out = values.out ?? 'lab-out'
  const terminal = new Terminal(recipes.length, situations.length, seed)
  terminal.line(`${recipes.length} recipes × ${situations.length} situations, seed ${seed}`)
  const start = performance.now()
  const troubles: Error[] = []
  const cells = await runMatrix({
    recipes,
    situations,
    seed,
    jobs,
    onCell: (cell) => terminal.cell(cell),
    onTrouble: (error) => {
      troubles.push(error)
      const { cause } = error
      terminal.line(`${error.message} ${cause instanceof Error ? cause.message : String(cause)}`)
    },
  })
  const seconds = (performance.now() - start) / 1000
  const ordered = inOrder(cells, recipes, situations)
  terminal.line()
  terminal.table(ordered)
  terminal.reasons(ordered)
  mkdirSync(out, { recursive: true })
  const file = join(out, 'report.html')
  writeFileSync(file, page({ cells: ordered, recipes, situations, seed, seconds }))
  writeFileSync(join(out, 'summary.svg'), summary(ordered, recipes, situations))
  const odd = ordered.filter((cell) => !isExpected(cell))
  const unplayed = troubles.length === 0 ? '' : `, ${troubles.length} could not be played`
  const state = `${odd.length === 0 ? 'all as expected' : `${odd.length} not as expected`}${unplayed}`
  terminal.line(
    `\n${ordered.length} ${ordered.length === 1 ? 'cell' : 'cells'} in ${seconds.toFixed(0)} s, ${state}. The report: ${file}`,
  )
  return odd.length + troubles.length === 0 ? 0 : 1
}

function takeApart(args: readonly string[]) {
  const text = { type: 'string' } as const
  const options = {
    situation: { type: 'string', multiple: true },
    seed: text,
    jobs: text,
    out: text,
    list: { type: 'boolean' },
  } as const
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    throw new LabUsageError(error instanceof Error ? error.message : String(error))
  }
}

/** Those that were named; `redis` names all whose name or store it is. All, when none was. */
function choose<T extends Recipe | Situation>(all: readonly T[], wanted: readonly string[], what: string): T[] {
  if (wanted.length === 0) return [...all]
  const chosen = new Set<T>()
  for (const name of wanted) {
    const exact = all.filter((one) => one.name === name)
    const found =
      exact.length > 0
        ? exact
        : all.filter((one) => one.name.startsWith(`${name}-`) || ('store' in one && one.store === name))
    if (found.length === 0) {
      throw new LabUsageError(`There is no ${what} '${name}'. Known: ${all.map((one) => one.name).join(', ')}.`)
    }
    for (const one of found) chosen.add(one)
  }
  return all.filter((one) => chosen.has(one))
}

function wholeNumber(option: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new LabUsageError(`--${option}: '${text}' is not a whole number.`)
  return Number(text)
}

function inOrder(cells: readonly Cell[], recipes: readonly Recipe[], situations: readonly Situation[]): Cell[] {
  const rank = ({ recipe, situation }: Cell): number =>
    recipes.indexOf(recipe) * situations.length + situations.indexOf(situation)
  return cells.toSorted((a, b) => rank(a) - rank(b))
}
