import type { LeaveRequest } from '../../core/backend.js'
import type { BackendError } from '../../core/errors.js'
import { findTicket } from './claim.js'
import { isLeaseGone, isNoSpace, storeError } from './failure.js'
import type { Lease } from './leases.js'
import { type Note, noteText, readNote } from './note.js'
import { runSteps, runTxn, type Step, type Store } from './store.js'
import { takeAway } from './takeover.js'
import type { Ticket } from './tickets.js'
import type { Compare, KeyValue, Op, Txn } from './txn.js'

const DOING = 'leaving a line'
const MOST_LOOKS = 5
/** A lease may outlast its ttl by this: it is rounded up, and starts anew with a new leader. */
const LEASE_LAG_MS = 60_000

type Outcome = boolean | BackendError

/** An own ticket that stands somewhere, and the request to leave. */
interface Leaving {
  readonly request: LeaveRequest
  readonly ticket: Ticket & { readonly create: bigint }
}

/** Releases or gives up each ticket. */
export async function leave(store: Store, requests: readonly LeaveRequest[]): Promise<Outcome[]> {
  const outcomes = new Map<LeaveRequest, Outcome>()
  const seen = new Set<string>()
  const quick: Leaving[] = []
  const slow: LeaveRequest[] = []
  for (const request of requests) {
    const ticket = request.handle === undefined ? undefined : store.tickets.get(request.id, request.handle)
    // What is kept for a while is written anew, so its value must be known; no Txn touches a key twice; and a
    // ticket whose join was not answered may stand nowhere, and another at its key.
    if (ticket?.create === undefined || request.keepMs > 0 || seen.has(request.id)) slow.push(request)
    else quick.push({ request, ticket: ticket as Leaving['ticket'] })
    seen.add(request.id)
  }
  await leaveQuick(store, quick, outcomes)
  const leaving = slow.map(async (request) => {
    const outcome = await leaveSlowly(store, request).catch((error: unknown) => storeError(DOING, error))
    outcomes.set(request, outcome)
  })
  if (leaving.length > 0) await Promise.all(leaving)
  return requests.map((request) => outcomes.get(request) ?? storeError(DOING, new Error('no answer')))
}

/** Own tickets, of which enough is known to leave in one step. */
async function leaveQuick(
  store: Store,
  items: readonly Leaving[],
  outcomes: Map<LeaveRequest, Outcome>,
): Promise<void> {
  if (items.length === 0) return
  // Few leave a tombstone: who does not, does not wait for one either.
  const isBuried = items.some(({ request }) => request.tombstoneMs > 0)
  const tombstones = isBuried ? await Promise.all(items.map(({ request }) => bury(store, request))) : []
  const steps = await runSteps(
    store,
    items.map((item, index) => leaveStep(item, tombstones[index] ?? [])),
  )
  const others: Promise<void>[] = []
  for (const [index, { request, ticket }] of items.entries()) {
    const step = steps[index]!
    if (!(step instanceof Error) && step.txn.succeeded) {
      store.tickets.left(ticket)
      outcomes.set(request, true)
    } else {
      others.push(takeTrouble(store, request, ticket, step).then((outcome) => void outcomes.set(request, outcome)))
    }
  }
  if (others.length > 0) await Promise.all(others)
}

function leaveStep({ ticket }: Leaving, tombstone: readonly Op[]): Txn {
  const { key, create, lease, mod } = ticket
  // Put again by another it was handed over, and is not ours to drop.
  const untouched: Compare | undefined =
    lease === undefined || mod === undefined ? undefined : { key, target: 'mod', is: '=', value: mod }
  return {
    compare: [untouched ?? { key, target: 'create', is: '=', value: create }],
    success: [{ op: 'delete', key }, ...tombstone],
    failure: [{ op: 'range', key, keysOnly: true }, ...tombstone],
  }
}

/** The ticket was not simply deleted. */
async function takeTrouble(store: Store, request: LeaveRequest, ticket: Ticket, step: Step | Error): Promise<Outcome> {
  if (step instanceof Error) {
    if (!isNoSpace(step) && !isLeaseGone(step)) return storeError(DOING, step)
    // No put is taken, or the tombstone's lease has ended: it leaves by itself, without or with a new one.
    return await leaveSlowly(store, request, !isNoSpace(step)).catch((error: unknown) => storeError(DOING, error))
  }
  const stands = step.txn.responses[0]?.range?.kvs[0] !== undefined
  if (stands) return await leaveSlowly(store, request).catch((error: unknown) => storeError(DOING, error))
  store.tickets.remove(ticket)
  return false
}

/** Reads the ticket first: another's (an eviction), one that is kept for a while, or one that changed unseen. */
async function leaveSlowly(store: Store, request: LeaveRequest, mayPut = true): Promise<Outcome> {
  try {
    return await lookAndLeave(store, request, mayPut)
  } catch (error) {
    // Without a put it can only go at once: that must not happen to what was to keep others out for a while.
    if (!isNoSpace(error) || !mayPut || request.keepMs > 0) throw error
    return await lookAndLeave(store, request, false)
  }
}

/** Without `mayPut` there is neither a tombstone nor a letter to the ticket's client. */
async function lookAndLeave(store: Store, request: LeaveRequest, mayPut: boolean): Promise<Outcome> {
  const tombstone = mayPut ? await bury(store, request) : []
  // First the tombstone, then the look: a join that arrives between the two is buried, one from before is seen.
  if (tombstone.length > 0) await runTxn(store, { compare: [], success: tombstone, failure: [] })
  for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
    const found = await findTicket(store, request)
    const note = found === undefined ? undefined : readNote(found)
    const isOurs = request.handle === undefined || note?.handle === request.handle
    const order = request.order ?? found?.create
    if (
      found === undefined ||
      !isOurs ||
      found.create !== order ||
      (note?.left === true && request.handle !== undefined)
    ) {
      forget(store, request)
      return false
    }
    const ops = await departure(store, request, found, note, mayPut)
    const { succeeded } = await runTxn(store, {
      compare: [{ key: found.key, target: 'mod', is: '=', value: found.mod }],
      success: ops,
      failure: [],
    })
    if (!succeeded) continue
    forget(store, request, request.keepMs)
    return true
  }
  return storeError(DOING, new Error('the ticket changes all the time'))
}

/** What ends the ticket: gone at once, or kept for a while under a lease that nobody renews. */
async function departure(
  store: Store,
  request: LeaveRequest,
  found: KeyValue,
  note: Note | undefined,
  mayPut: boolean,
): Promise<Op[]> {
  if (request.keepMs > 0 && note !== undefined) {
    const lease: Lease = await store.leases.grant(Math.ceil(request.keepMs / 1_000))
    return [{ op: 'put', key: found.key, value: noteText({ ...note, left: true }), lease: lease.id }]
  }
  if (request.handle !== undefined || !mayPut) return [{ op: 'delete', key: found.key }]
  const { drop, letter } = await takeAway(store, found)
  return letter === undefined ? [drop] : [drop, letter]
}

/** What keeps a late copy of the join out, where one may be under way. */
async function bury(store: Store, request: LeaveRequest): Promise<Op[]> {
  if (request.tombstoneMs <= 0) return []
  try {
    const lease = await store.leases.forgetful(request.tombstoneMs)
    return [{ op: 'put', key: store.keys.tombstone(request.id), value: '', lease: lease.id }]
  } catch (error) {
    // Without room for a tombstone there is none for a late join either.
    if (isNoSpace(error)) return []
    throw error
  }
}

function forget(store: Store, request: LeaveRequest, keptMs = 0): void {
  const ticket = store.tickets.get(request.id, request.handle)
  if (ticket === undefined) return
  if (keptMs > 0) store.tickets.removeButKeep(ticket, keptMs + LEASE_LAG_MS)
  else store.tickets.remove(ticket)
}

/** Drops own tickets that nobody renewed in time, though their lease lives on. */
export async function dropLapsed(store: Store, tickets: readonly Ticket[]): Promise<void> {
  await leave(
    store,
    tickets.map(({ line, id, handle, create }) => ({
      line,
      id,
      handle,
      keepMs: 0,
      tombstoneMs: 0,
      ...(create === undefined ? {} : { order: create }),
    })),
  )
}
