import { connect } from '../connect.js'
import { checkName } from '../core/name.js'
import { type LineInfo, type TicketInfo, ticketJson } from '../core/view.js'
import { atMostOne, COMMON, oneName, takeApart } from './arguments.js'
import { EXIT } from './exit-codes.js'
import { HELP } from './help.js'
import { jsonLine, say, write } from './output.js'
import { shellWord, visible } from './text.js'
import { holders, whoText } from './tickets.js'

/** `holdfast evict`: breaks a stuck holder. */
export async function evict(args: readonly string[]): Promise<number> {
  const { values, positionals } = takeApart('evict', args, {
    ...COMMON,
    ticket: { type: 'string' },
    holder: { type: 'boolean' },
    all: { type: 'boolean' },
  })
  if (values.help) {
    await write(HELP['evict']!)
    return EXIT.ok
  }
  const name = checkName(oneName('evict', positionals))
  atMostOne('evict', { ticket: values.ticket, holder: values.holder, all: values.all })
  const locks = await connect(values.store)
  try {
    const evicted: TicketInfo[] = []
    for (const ticket of (await locks.view(name)).flatMap((line) => chosen(line, values))) {
      if (await locks.evict(ticket)) evicted.push(ticket)
    }
    if (values.json) await write(jsonLine({ name, evicted: evicted.map(ticketJson) }))
    else for (const ticket of evicted) await write(`evicted ${roleText(ticket)} ${whoText(ticket)}\n`)
    if (evicted.length > 0) return EXIT.ok
    if (!values.json) say(`there is nothing to evict from '${visible(name)}'. Look: holdfast show ${shellWord(name)}`)
    return EXIT.nothing
  } finally {
    await locks.close()
  }
}

function chosen(line: LineInfo, values: { ticket?: string; all?: boolean }): readonly TicketInfo[] {
  if (values.ticket !== undefined) return line.tickets.filter((ticket) => ticket.id === values.ticket)
  // Waiters first, from the end: nobody is granted on the way only to be evicted in turn.
  return values.all ? line.tickets.toReversed() : holders(line)
}

function roleText(ticket: TicketInfo): string {
  return ticket.state === 'waiting' ? 'waiter' : 'holder'
}
