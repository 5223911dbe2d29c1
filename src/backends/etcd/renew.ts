import type { RenewRequest, Standing } from '../../core/backend.js'
import { claim } from './claim.js'
import { isLeaseGone, isNoSpace } from './failure.js'
import { placeFrom, placeReads } from './grant.js'
import type { Lease } from './leases.js'
import { ticketText } from './note.js'
import { beat, type Beats, failed, granted, runReads, runSteps, settle, type Store, waiting } from './store.js'
import type { Ticket } from './tickets.js'
import type { Compare, Header, Op, OpAnswer, Txn } from './txn.js'

/** A ticket of ours whose key and lease are known for sure. */
interface Known {
  readonly request: RenewRequest
  readonly ticket: Ticket & { create: bigint; lease: Lease }
}

const DOING = 'renewing'

const MOMENT_MS = 12

/** Keeps tickets alive and says where each stands. */
export async function renew(
  store: Store,
  requests: readonly RenewRequest[],
  sentAt: number = performance.now(),
): Promise<Standing[]> {
  // One that lapses meanwhile may have been granted when it was read, and be dropped by the time that this is answered.
  const tickets = requests.map(({ id, handle, nextHandle }) =>
    nextHandle === undefined ? store.tickets.get(id, handle) : undefined,
  )
  const standings = await renewAll(store, requests, sentAt)
  return requests.map((request, index): Standing => {
    if (tickets[index]?.lapsed === true) return { state: 'gone' }
    return standings.get(request) ?? failed(DOING, new Error('no answer'))
  })
}

async function renewAll(
  store: Store,
  requests: readonly RenewRequest[],
  sentAt: number,
): Promise<Map<RenewRequest, Standing>> {
  const standings = new Map<RenewRequest, Standing>()
  const looks: Known[] = []
  const moves: Known[] = []
  const claims: RenewRequest[] = []
  for (const request of requests) {
    const item = known(store, request)
    if (store.tickets.get(request.id, request.handle)?.lapsed === true) standings.set(request, { state: 'gone' })
    else if (item === undefined) claims.push(request)
    else if (item.ticket.lease.gone) standings.set(request, gone(store, item.ticket))
    else if (!item.ticket.granted || store.leases.fits(item.ticket.lease, request.ttlMs)) looks.push(item)
    else moves.push(item)
  }
  await Promise.all([
    lookAll(store, looks, sentAt, standings),
    moveAll(store, moves, sentAt, standings),
    ...claims.map(async (request) => {
      standings.set(request, await claim(store, request, sentAt).catch((error: unknown) => failed(DOING, error)))
    }),
  ])
  return standings
}

/** Undefined where the key must be read first: another's ticket, a new holder, or an unanswered call before this. */
function known(store: Store, request: RenewRequest): Known | undefined {
  if (request.nextHandle !== undefined || request.nextHolder !== undefined) return undefined
  const ticket = store.tickets.get(request.id, request.handle)
  if (ticket?.create === undefined || ticket.lease === undefined) return undefined
  return { request, ticket: ticket as Known['ticket'] }
}

function gone(store: Store, ticket: Ticket, stands = false): Standing {
  // Somebody else's by now: its key is not ours to use again.
  if (stands) ticket.spoilt = true
  store.tickets.remove(ticket)
  return { state: 'gone' }
}

/** Reads that the keys are there and what stands before them, and keeps their leases alive in the same breath. */
async function lookAll(
  store: Store,
  items: readonly Known[],
  sentAt: number,
  standings: Map<RenewRequest, Standing>,
): Promise<void> {
  if (items.length === 0) return
  const behinds = items.map(({ ticket }) => ticket.behind)
  const readings = items.map(({ ticket }): Op[] => {
    const own: Op = { op: 'range', key: ticket.key, keysOnly: true }
    if (ticket.granted) return [own]
    // While what it waits for is unchanged nothing else matters: one key instead of the line.
    if (ticket.behind !== undefined) return [own, { op: 'range', key: ticket.behind.key, keysOnly: true }]
    return [own, ...placeReads(store.keys, ticket, ticket.create)]
  })
  // Sent in this order, for `confirm`: the reads must not go out before the keep-alives.
  const beating = beat(
    store,
    items.map(({ ticket }) => ticket.lease),
  )
  let answers: Awaited<ReturnType<typeof runReads>>
  let beats: Beats
  try {
    ;[answers, beats] = await Promise.all([runReads(store, readings), beating])
  } catch (error) {
    for (const { request } of items) standings.set(request, failed(DOING, error))
    return
  }
  const promote: Known[] = []
  const again: Known[] = []
  for (const [index, item] of items.entries()) {
    const { header, responses } = answers[index]!
    const standing = look(store, item, { responses, header, behind: behinds[index] }, beats, sentAt)
    if (standing === 'promote') promote.push(item)
    else if (standing === 'again') again.push(item)
    else standings.set(item.request, standing)
  }
  await Promise.all([moveAll(store, promote, sentAt, standings), lookAll(store, again, sentAt, standings)])
}

interface Reading {
  readonly responses: readonly OpAnswer[]
  readonly header: Header
  /** What the ticket was known to wait for when it was read. */
  readonly behind: Ticket['behind']
}

function look(
  store: Store,
  { ticket, request }: Known,
  { responses, header, behind }: Reading,
  beats: Beats,
  sentAt: number,
): Standing | 'promote' | 'again' {
  const own = responses[0]?.range?.kvs[0]
  // Under another lease it is another's: handed over, or left and kept.
  if (own?.create !== ticket.create || own.lease !== ticket.lease.id || ticket.lease.gone) {
    return gone(store, ticket, own !== undefined)
  }
  const trouble = settle(store, beats, ticket.lease, header.term)
  if (trouble !== undefined) return failed(DOING, trouble)
  store.tickets.keep(ticket, ticket.lease.ttlMs)
  // A push may have come while this was read; what was read before a grant says nothing about it.
  if (!ticket.granted && behind !== undefined) {
    const before = responses[1]?.range?.kvs[0]
    if (before?.mod === behind.mod && ticket.unwatch !== undefined) {
      return waiting(ticket.ahead, ticket.lease, sentAt)
    }
    ticket.behind = undefined
    return 'again'
  }
  if (!ticket.granted && responses.length > 1) {
    store.rechecks.take(ticket, placeFrom(store.keys, ticket, responses.slice(1)), header.revision, false)
  }
  if (!ticket.granted) return waiting(ticket.ahead, ticket.lease, sentAt)
  if (store.leases.fits(ticket.lease, request.ttlMs)) return granted(ticket.create, ticket.lease, sentAt)
  return 'promote'
}

/** Puts tickets under the lease of their ttl: those that were granted while they waited, and those with a new ttl. */
async function moveAll(
  store: Store,
  moving: readonly Known[],
  sentAt: number,
  standings: Map<RenewRequest, Standing>,
  retries = 1,
): Promise<void> {
  const items = await stillThere(store, moving, standings)
  if (items.length === 0) return
  const targets = await Promise.all(
    items.map(({ request }) => store.leases.get(request.ttlMs).catch((error: Error) => error)),
  )
  const ready = items.flatMap((item, index) => {
    const target = targets[index]!
    return target instanceof Error ? [] : [{ ...item, target }]
  })
  // The keep-alives first: an answer to a call that was sent before them would not vouch for them.
  const [beats, steps] = await Promise.all([
    beat(
      store,
      ready.map(({ target }) => target),
    ),
    runSteps(
      store,
      ready.map(({ ticket, target }) => moveStep(ticket, target)),
    ),
  ])
  const stay: Known[] = []
  const stale: typeof ready = []
  for (const [index, item] of items.entries()) {
    const error = targets[index]!
    if (!(error instanceof Error)) continue
    if (isNoSpace(error)) stay.push(item)
    else standings.set(item.request, failed(DOING, error))
  }
  for (const [index, item] of ready.entries()) {
    const { request, ticket, target } = item
    const step = steps[index]!
    if (!(step instanceof Error)) {
      settle(store, beats, target, step.header.term)
      // Done by an earlier call that was not answered, if it hangs there already.
      const own = step.txn.responses[0]?.range?.kvs[0]
      const moved = step.txn.succeeded || (own?.create === ticket.create && own.lease === target.id)
      if (moved) store.tickets.hang(ticket, target, own?.mod ?? step.header.revision)
      standings.set(request, moved ? granted(ticket.create, target, sentAt) : gone(store, ticket, own !== undefined))
    } else if (isNoSpace(step)) stay.push(item)
    else if (isLeaseGone(step) && retries > 0) stale.push(item)
    else {
      // It may have been done: what it hangs on must be read before the next step.
      delete (ticket as Ticket).lease
      standings.set(request, failed(DOING, step))
    }
  }
  if (stale.length > 0) {
    await Promise.allSettled(stale.map(({ target }) => store.leases.keepAlive(target)))
    await moveAll(store, stale, sentAt, standings, 0)
  }
  await stayAll(store, stay, sentAt, standings)
}

/**
 * A hold that was handed on may be over in a moment, and then need not be put anywhere: on a busy line that
 * would double its writes. So one that was only just pushed is given that moment, on the lease it waited on.
 * (Not a semaphore's: its put is what tells the next in line.)
 */
async function stillThere(
  store: Store,
  items: readonly Known[],
  standings: Map<RenewRequest, Standing>,
): Promise<Known[]> {
  const now = performance.now()
  const due = items.map(({ ticket }) =>
    ticket.line.kind === 'semaphore' ? now : (ticket.pushedAt ?? now - MOMENT_MS) + MOMENT_MS,
  )
  const ms = Math.max(0, ...due) - now
  if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms).unref())
  return items.filter(({ request, ticket }) => {
    const stands = store.tickets.get(ticket.id) === ticket
    if (!stands) standings.set(request, { state: 'gone' })
    return stands
  })
}

/** No put is taken while the quota is used up; but what they hang on now can be kept alive. */
async function stayAll(
  store: Store,
  items: readonly Known[],
  sentAt: number,
  standings: Map<RenewRequest, Standing>,
): Promise<void> {
  const staying = items.map(({ request, ticket }) => ({
    request: { ...request, ttlMs: ticket.lease.seconds * 1_000 },
    ticket,
    original: request,
  }))
  const answers = new Map<RenewRequest, Standing>()
  await lookAll(store, staying, sentAt, answers)
  for (const { request, original } of staying) standings.set(original, answers.get(request)!)
}

function moveStep(ticket: Known['ticket'], target: Lease): Txn {
  const compare: Compare[] = [
    { key: ticket.key, target: 'create', is: '=', value: ticket.create },
    { key: ticket.key, target: 'lease', is: '=', value: ticket.lease.id },
  ]
  return {
    compare,
    // The create revision stays.
    success: [{ op: 'put', key: ticket.key, value: ticketText(ticket), lease: target.id }],
    failure: [{ op: 'range', key: ticket.key, keysOnly: true }],
  }
}
