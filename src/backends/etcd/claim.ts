import type { RenewRequest, Standing, TicketRef } from '../../core/backend.js'
import type { LineKey } from '../../core/line.js'
import { placeFrom, placeReads } from './grant.js'
import { readNote, ticketText } from './note.js'
import { failed, granted, runReads, runTxn, type Store, waiting } from './store.js'
import type { Ticket } from './tickets.js'
import type { KeyValue, Op } from './txn.js'

/** How often the key may change between the look and the step before that is called a failure. */
const MOST_LOOKS = 5

/**
 * Renews a ticket that must be read first: one that another process hands over, one that gets a new holder,
 * one whose last call was not answered. It is put again under a lease of this client, with the value that it
 * then has, provided that nobody touched it since it was read.
 */
export async function claim(store: Store, request: RenewRequest, sentAt: number): Promise<Standing> {
  for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
    const found = await findTicket(store, request)
    const note = found === undefined ? undefined : readNote(found)
    const { handle, nextHandle, nextHolder } = request
    const mayTake = note !== undefined && (note.handle === handle || note.handle === nextHandle)
    if (found === undefined || note === undefined || !mayTake || note.left === true) {
      return forget(store, request, found !== undefined)
    }
    const ticket: Ticket = {
      line: request.line,
      id: request.id,
      key: found.key,
      weight: note.weight,
      capacity: note.capacity,
      holder: nextHolder ?? note.holder,
      handle: nextHandle ?? handle,
      joining: 0,
      spoilt: false,
      create: found.create,
      granted: false,
      ahead: Number.POSITIVE_INFINITY,
      untilMs: Number.POSITIVE_INFINITY,
      lapsed: false,
    }
    const [reading] = await runReads(store, [placeReads(store.keys, ticket, found.create)])
    const place = placeFrom(store.keys, ticket, reading?.responses ?? [])
    const lease = await store.leases.get(place.granted ? request.ttlMs : request.waitTtlMs)
    const value = ticketText(ticket)
    const { succeeded, header } = await runTxn(store, {
      compare: [{ key: found.key, target: 'mod', is: '=', value: found.mod }],
      success: [{ op: 'put', key: found.key, value, lease: lease.id }],
      failure: [],
    })
    if (!succeeded) continue
    store.tickets.replace(ticket)
    store.tickets.hang(ticket, lease, header.revision)
    if (place.granted) {
      store.tickets.grant(ticket)
      return granted(found.create, lease, sentAt)
    }
    store.rechecks.watch(ticket, place, reading?.header.revision ?? header.revision)
    return waiting(place.ahead, lease, sentAt)
  }
  return failed('renewing', new Error('the ticket changes all the time'))
}

function forget(store: Store, request: RenewRequest, stands: boolean): Standing {
  const ticket = store.tickets.get(request.id, request.handle)
  if (ticket !== undefined) {
    if (stands) ticket.spoilt = true
    store.tickets.remove(ticket)
  }
  return { state: 'gone' }
}

/** The ticket's key with its value, wherever it comes from; undefined: it is not there. */
export async function findTicket(
  store: Store,
  ref: Pick<TicketRef, 'line' | 'id' | 'order'>,
): Promise<KeyValue | undefined> {
  const known = store.tickets.get(ref.id)?.key
  const { key, end } = store.keys.line(ref.line)
  // Another's key can only be found in its line.
  const at = ref.order === undefined ? {} : { minCreate: ref.order, maxCreate: ref.order }
  const op: Op = known === undefined ? { op: 'range', key, rangeEnd: end, ...at } : { op: 'range', key: known }
  const [reading] = await runReads(store, [[op]])
  return reading?.responses[0]?.range?.kvs.find((kv) => idOf(store, ref.line, kv) === ref.id)
}

/** The id of the ticket that stands there. */
export function idOf(store: Store, line: LineKey, kv: KeyValue): string {
  return readNote(kv)?.id ?? store.keys.rest(line, kv.key)
}
