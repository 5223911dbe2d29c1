/**
 * The model: a lock is a line of tickets.
 *
 * Take a ticket, wait until your number is up, hold, leave. Everything else in Holdfast serves the
 * one rule in this file, and every store comes to the same answer by its own means.
 */

/** What a line is for. The kind is part of its identity: `lock('x')` and `semaphore('x', 2)` are two lines. */
export type Kind = 'mutex' | 'rw' | 'semaphore'

/** All kinds, in the order in which `all([...])` and every batch of locks sort them. */
export const KINDS: readonly Kind[] = ['mutex', 'rw', 'semaphore']

/** The identity of a line. */
export interface LineKey {
  readonly kind: Kind
  readonly name: string
}

/** What the grant rule needs to know of a ticket. */
export interface Ticket {
  /** Made by the client before the call, so that a repeated call is recognised. */
  readonly id: string
  /** Given by the store, strictly increasing over the life of the line. For an exclusive holder it is the fence. */
  readonly order: bigint
  /** How much of the capacity the ticket takes. */
  readonly weight: number
  /** The capacity its own client was told: clients may differ while a semaphore is resized by a rolling deploy. */
  readonly capacity: number
}

/** A writer takes all of it, a reader one: so up to 2^30 readers share, and a writer is alone. */
export const RW_CAPACITY: number = 2 ** 30

/**
 * How many tickets at the head of the line are granted.
 *
 * A ticket is granted when every ticket before it is granted and the weights from the head up to and
 * including it fit its own capacity. So the granted tickets are always a prefix of the line, nobody is
 * passed, and a ticket once granted stays granted: what stands before it can only leave.
 */
export function grantedCount(line: readonly Pick<Ticket, 'weight' | 'capacity'>[]): number {
  let sum = 0
  let count = 0
  for (const ticket of line) {
    sum += ticket.weight
    if (sum > ticket.capacity) break
    count += 1
  }
  return count
}

/** Puts tickets into the order of their line. */
export function byOrder(a: Pick<Ticket, 'order'>, b: Pick<Ticket, 'order'>): number {
  return a.order < b.order ? -1 : a.order > b.order ? 1 : 0
}

/** Sorts lines by (kind, name), by code unit: the one order in which several locks may be taken without deadlock. */
export function byLine(a: LineKey, b: LineKey): number {
  if (a.kind !== b.kind) return KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind)
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0
}

export function isSameLine(a: LineKey, b: LineKey): boolean {
  return a.kind === b.kind && a.name === b.name
}

/** A text that is the same for the same line and different for different ones. */
export function lineText(line: LineKey): string {
  return `${line.kind}:${line.name}`
}
