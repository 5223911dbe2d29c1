import { grantedCount } from '../../core/line.js'

/** A ticket as its line lists it. Who stands behind it, and whether it still lives, is under a key of its own. */
export interface Entry {
  readonly id: string
  /** Names the key whose expiry is the ticket's lease. Equal to the id until a handover. */
  readonly handle: string
  readonly order: number
  readonly weight: number
  readonly capacity: number
  /** Left, but kept standing for its `minHold`. */
  readonly left: boolean
}

/** The whole line, as it is stored in one value. */
export interface LineValue {
  readonly name: string
  /** The order that the next ticket gets. */
  readonly next: number
  readonly entries: readonly Entry[]
  /** Ids whose late join must not bring them back, and for how many seconds they were written. */
  readonly tombstones: readonly Tombstone[]
}

export interface Tombstone {
  readonly id: string
  readonly seconds: number
}

export function emptyLine(name: string): LineValue {
  return { name, next: 1, entries: [], tombstones: [] }
}

export function isEmpty(line: LineValue): boolean {
  return line.entries.length === 0 && line.tombstones.length === 0
}

export function find(line: LineValue, id: string): Entry | undefined {
  return line.entries.find((entry) => entry.id === id)
}

/** The entries that hold now. */
export function grantedEntries(line: LineValue): readonly Entry[] {
  return line.entries.slice(0, grantedCount(line.entries))
}

export function isGranted(line: LineValue, entry: Entry): boolean {
  return line.entries.indexOf(entry) < grantedCount(line.entries)
}

/** The line with a new ticket at its end. */
export function append(line: LineValue, ticket: Pick<Entry, 'id' | 'weight' | 'capacity'>): LineValue {
  const { id, weight, capacity } = ticket
  const entry = { id, handle: id, order: line.next, weight, capacity, left: false }
  return { ...line, next: line.next + 1, entries: [...line.entries, entry] }
}

/** The line without some of its entries. */
export function without(line: LineValue, gone: (entry: Entry) => boolean): LineValue {
  const entries = line.entries.filter((entry) => !gone(entry))
  return entries.length === line.entries.length ? line : { ...line, entries }
}

/** The line with one entry changed. */
export function replace(line: LineValue, id: string, change: Partial<Entry>): LineValue {
  return { ...line, entries: line.entries.map((entry) => (entry.id === id ? { ...entry, ...change } : entry)) }
}

type Packed = [id: string, order: number, weight: number, capacity: number, handle?: string, left?: 1]

/** Short, because it is read at every poll: arrays without names, and no handle that equals the id. */
export function encode(line: LineValue): string {
  const tickets = line.entries.map(({ id, order, weight, capacity, handle, left }): Packed => {
    if (left) return [id, order, weight, capacity, handle, 1]
    return handle === id ? [id, order, weight, capacity] : [id, order, weight, capacity, handle]
  })
  const tombstones = line.tombstones.map(({ id, seconds }) => [id, seconds])
  return JSON.stringify({ v: 1, name: line.name, next: line.next, tickets, tombstones })
}

/** Throws when the value is not one of ours. */
export function decode(bytes: Buffer): LineValue {
  const data = JSON.parse(bytes.toString('utf8')) as {
    v: number
    name: string
    next: number
    tickets: Packed[]
    tombstones: [string, number][]
  }
  if (data.v !== 1) throw new Error(`a line of version ${data.v}`)
  if (typeof data.name !== 'string') throw new Error('a line without a name')
  const entries = data.tickets.map(([id, order, weight, capacity, handle = id, left]) => {
    return { id, handle, order, weight, capacity, left: left === 1 }
  })
  const tombstones = data.tombstones.map(([id, seconds]) => ({ id, seconds }))
  return { name: data.name, next: data.next, entries, tombstones }
}
