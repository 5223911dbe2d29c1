import { connect } from '../connect.js'
import { checkName } from '../core/name.js'
import type { LineInfo, TicketInfo } from '../core/view.js'
import { COMMON, oneName, takeApart } from './arguments.js'
import { EXIT } from './exit-codes.js'
import { HELP } from './help.js'
import { jsonLine, write } from './output.js'
import { type Cell, type Palette, palette, span, table, visible } from './text.js'
import { holders, kindText, lineJson, ownerText, waiters } from './tickets.js'

/** `holdfast show`: who holds a lock, who waits. */
export async function show(args: readonly string[]): Promise<number> {
  const { values, positionals } = takeApart('show', args, COMMON)
  if (values.help) {
    await write(HELP['show']!)
    return EXIT.ok
  }
  const name = checkName(oneName('show', positionals))
  const locks = await connect(values.store)
  try {
    const lines = (await locks.view(name)).filter((line) => line.tickets.length > 0)
    if (values.json) await write(jsonLine({ name, lines: lines.map(lineJson) }))
    else if (lines.length === 0) await write(`'${visible(name)}' is free: nobody holds it or waits for it.\n`)
    else await write(`${lines.map((line) => details(line, palette(process.stdout))).join('\n\n')}\n`)
    return EXIT.ok
  } finally {
    await locks.close()
  }
}

function details(line: LineInfo, paint: Palette): string {
  const title = `${paint.bold(visible(line.name))}  ${kindText(line)}, ${holders(line).length} held, ${waiters(line).length} waiting`
  const right = new Set([2, 3, 4])
  const head: Cell[] = ['', 'STATE', 'FENCE', 'IN LINE', 'LEFT', 'OWNER', 'HOST', 'PID', 'TICKET', 'NOTE'].map(
    (text, i) => ({
      text,
      paint: paint.dim,
      right: right.has(i),
    }),
  )
  const rows = line.tickets.map((ticket): Cell[] => [
    { text: ' ' },
    { text: stateText(line, ticket), paint: ticket.state === 'waiting' ? paint.yellow : paint.green },
    { text: String(ticket.fence), right: true },
    { text: span(ticket.ageMs), right: true },
    { text: span(ticket.remainingMs), right: true },
    { text: ownerText(ticket.owner) },
    { text: visible(ticket.host) },
    { text: String(ticket.pid) },
    { text: ticket.id },
    { text: visible(ticket.note ?? '') },
  ])
  // Never cut: the ids are there to be copied.
  return `${title}\n${table([head, ...rows], Number.POSITIVE_INFINITY)}`
}

function stateText(line: LineInfo, ticket: TicketInfo): string {
  const what = modeText(line, ticket)
  const state = ticket.state === 'left' ? 'left, kept' : ticket.state
  return what === '' ? state : `${state} ${what}`
}

function modeText({ kind }: LineInfo, { weight, capacity }: TicketInfo): string {
  if (kind === 'mutex') return ''
  return kind === 'rw' ? (weight === 1 ? 'read' : 'write') : `${weight}/${capacity}`
}
