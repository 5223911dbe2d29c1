import type { Holder } from '../../core/backend.js'
import type { Ticket } from './tickets.js'
import type { KeyValue } from './txn.js'

/** What a ticket's value says: for people who look, for a takeover and for a handover. */
export interface Note {
  readonly id: string
  /** Left out while it is the id. */
  readonly handle?: string
  readonly weight: number
  readonly capacity: number
  readonly holder: Holder
  readonly left?: boolean
}

/** The value of a ticket's key. */
export function ticketText(ticket: Ticket): string {
  const { id, handle, weight, capacity, holder } = ticket
  const other = handle === id ? {} : { handle }
  return noteText({ id, ...other, weight, capacity, holder })
}

export function noteText(note: Note): string {
  return JSON.stringify(note)
}

/** What the value says; undefined for the key of another program (etcdctl, a Go service). */
export function readNote(kv: Pick<KeyValue, 'value'>): (Note & { readonly handle: string }) | undefined {
  if (!kv.value.startsWith('{"id":')) return undefined
  try {
    const note = JSON.parse(kv.value) as Unchecked<Note>
    return isNote(note) ? { ...note, handle: note.handle ?? note.id } : undefined
  } catch {
    // Not ours after all.
    return undefined
  }
}

type Unchecked<T> = { readonly [Key in keyof T]?: unknown }

/** Another program's value may look like ours by chance. */
function isNote(note: Unchecked<Note>): note is Note {
  const { id, handle, weight, capacity, holder } = note
  const isHandle = handle === undefined || typeof handle === 'string'
  return typeof id === 'string' && id !== '' && isHandle && isCount(weight) && isCount(capacity) && isHolder(holder)
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) > 0
}

function isHolder(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { owner, client, host, pid } = value as Unchecked<Holder>
  return [owner, client, host].every((text) => typeof text === 'string') && typeof pid === 'number'
}
