import type { LineInfo, TicketInfo } from '../core/view.js'
import { ticketJson } from '../core/view.js'
import { span, visible } from './text.js'

/** Those of a line that hold it, or keep others out though they left. */
export function holders(line: LineInfo): TicketInfo[] {
  return line.tickets.filter((ticket) => ticket.state !== 'waiting')
}

export function waiters(line: LineInfo): TicketInfo[] {
  return line.tickets.filter((ticket) => ticket.state === 'waiting')
}

/** A line as programs read it: tokens as decimal text. */
export function lineJson(line: LineInfo): Record<string, unknown> {
  const { kind, name, tickets } = line
  return { kind, name, held: holders(line).length, waiting: waiters(line).length, tickets: tickets.map(ticketJson) }
}

/** 'mutex', 'read-write lock' or 'semaphore of 4'. */
export function kindText({ kind, tickets }: LineInfo): string {
  return kind === 'mutex' ? 'mutex' : kind === 'rw' ? 'read-write' : `semaphore of ${tickets[0]?.capacity ?? 0}`
}

/** An owner, made short when it is a random one. */
export function ownerText(owner: string): string {
  return /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/.test(owner)
    ? `${owner.slice(0, 8)}…`
    : visible(owner)
}

/** Who somebody is: 'worker-1 (pid 4711 on db1)'. */
export function whoText({ owner, host, pid }: Pick<TicketInfo, 'owner' | 'host' | 'pid'>): string {
  return `${ownerText(owner)} (pid ${pid} on ${visible(host)})`
}

/** 'held by worker-1 (pid 4711 on db1), in line since 12s'; undefined when nobody holds that kind of lock. */
export function whoHolds(lines: readonly LineInfo[], kind: LineInfo['kind']): string | undefined {
  const line = lines.find((one) => one.kind === kind)
  const [first, ...more] = line === undefined ? [] : holders(line)
  if (first === undefined) return undefined
  const others = more.length === 0 ? '' : ` and ${more.length} more`
  return `held by ${whoText(first)}${others}${first.ageMs === undefined ? '' : `, there for ${span(first.ageMs)}`}`
}
