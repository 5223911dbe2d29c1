import { connect } from '../connect.js'
import type { Holdfast } from '../core/holdfast.js'
import type { LineInfo } from '../core/view.js'
import { COMMON, takeApart, UsageError } from './arguments.js'
import { EXIT } from './exit-codes.js'
import { HELP } from './help.js'
import { jsonLine, say, write } from './output.js'
import { type Cell, type Palette, palette, span, table, visible } from './text.js'
import { holders, kindText, lineJson, ownerText, waiters } from './tickets.js'

/** `holdfast ls`: lists what is held and waited for. */
export async function ls(args: readonly string[]): Promise<number> {
  const { values, positionals } = takeApart('ls', args, COMMON)
  if (values.help) {
    await write(HELP['ls']!)
    return EXIT.ok
  }
  const prefix = onePrefix('ls', positionals)
  const locks = await connect(values.store)
  try {
    const lines = await allLines(locks, prefix)
    if (values.json) {
      for (const line of lines) await write(jsonLine(lineJson(line)))
    } else if (lines.length > 0) {
      await write(`${listing(lines, process.stdout, palette(process.stdout))}\n`)
    } else if (process.stdout.isTTY) {
      say(
        prefix === ''
          ? 'nothing is held or waited for.'
          : `nothing that starts with '${visible(prefix)}' is held or waited for.`,
      )
    }
    return EXIT.ok
  } finally {
    await locks.close()
  }
}

/** At most one prefix. */
export function onePrefix(command: string, positionals: readonly string[]): string {
  if (positionals.length > 1) {
    throw new UsageError('One prefix is enough. In a shell, quote a prefix with spaces or wildcards.', command)
  }
  return positionals[0] ?? ''
}

/** All lines of that prefix, sorted by name and kind. */
export async function allLines(locks: Holdfast, prefix: string): Promise<LineInfo[]> {
  const lines: LineInfo[] = []
  for await (const line of locks.lines(prefix)) if (line.tickets.length > 0) lines.push(line)
  return lines.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.kind < b.kind ? -1 : 1))
}

/** The table of `ls` and `top`. */
export function listing(
  lines: readonly LineInfo[],
  stream: { columns?: number; isTTY?: boolean },
  paint: Palette,
): string {
  const head = ['NAME', 'KIND', 'HELD', 'WAITING', 'IN LINE', 'LEFT', 'FENCE', 'HOLDER', 'NOTE']
  const right = new Set([2, 3, 4, 5, 6])
  const rows: Cell[][] = [head.map((text, i) => ({ text, paint: paint.dim, right: right.has(i) }))]
  for (const line of lines) {
    const [first] = line.tickets
    const held = holders(line).length
    const waiting = waiters(line).length
    const more = held > 1 ? ` +${held - 1}` : ''
    rows.push([
      { text: visible(line.name), paint: paint.bold },
      { text: kindText(line) },
      { text: String(held), right: true, paint: paint.green },
      { text: String(waiting), right: true, paint: waiting > 0 ? paint.yellow : paint.dim },
      { text: span(first?.ageMs), right: true },
      { text: span(first?.remainingMs), right: true },
      { text: String(first?.fence ?? ''), right: true },
      { text: first === undefined ? '' : `${ownerText(first.owner)}@${visible(first.host)}:${first.pid}${more}` },
      { text: visible(first?.note ?? '') },
    ])
  }
  return table(rows, stream.isTTY === true ? (stream.columns ?? 80) : Number.POSITIVE_INFINITY)
}
