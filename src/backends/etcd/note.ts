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
    const note = JSON.parse(kv.value) as Note
    return { ...note, handle: note.handle ?? note.id }
  } catch {
    // Not ours after all.
    return undefined
  }
}
