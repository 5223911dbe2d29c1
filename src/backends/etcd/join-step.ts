import type { JoinRequest, Standing } from '../../core/backend.js'
import { noNewRivals, noRivals, placeFrom, placeReads } from './grant.js'
import type { Lease } from './leases.js'
import { ticketText } from './note.js'
import { renew } from './renew.js'
import { failed, granted, runSteps, type Step, type Store, waiting } from './store.js'
import type { Ticket } from './tickets.js'
import type { Compare, Op, Txn, TxnAnswer } from './txn.js'

/** A request on its way: its ticket, and the leases that it may be put under. */
export interface Joining {
  readonly request: JoinRequest
  readonly ticket: Ticket
  readonly hold: Lease
  /** Undefined when it does not wait. */
  readonly wait: Lease | undefined
  /** Asked only whether it is free: the rest makes the call four times as long, and is seldom needed. */
  lean: boolean
  /** Not asked whether it is free: another ticket of this client stands there, and a look at the line costs the server. */
  readonly crowded: boolean
  /** A revision at which it was read that the ticket fits. */
  fitsAt?: bigint
}

export type Standings = Map<JoinRequest, Standing>

/** What the parts of one call share. */
export interface Call {
  readonly sentAt: number
  readonly standings: Standings
  /** What begins when core has the answers. */
  readonly later: (() => void)[]
}

const DOING = 'joining a line'

/** How often a try for a semaphore looks again because somebody joined between the look and the put. */
const MOST_LOOKS = 10

/**
 * Everything in one step and one round trip. Free: put under the hold's lease. Else, if it waits and is neither
 * there nor buried: put under the waiting lease, and read what stands before it. Else read why not.
 */
export function joinStep(store: Store, item: Joining): Txn {
  const { keys } = store
  const { ticket, hold, wait, fitsAt, lean, crowded } = item
  const notBuried: Compare = { key: keys.tombstone(ticket.id), target: 'version', is: '=', value: 0 }
  const notThere: Compare = { key: ticket.key, target: 'version', is: '=', value: 0 }
  const free = fitsAt === undefined ? noRivals(keys, ticket) : noNewRivals(keys, ticket, fitsAt)
  const success: Op[] = [{ op: 'put', key: ticket.key, value: ticketText(ticket), lease: hold.id }]
  const compare = [free, notThere, notBuried]
  if (lean) return { compare, success, failure: [] }
  const whyNot: Op[] = [
    { op: 'range', key: ticket.key, keysOnly: true },
    { op: 'range', key: keys.tombstone(ticket.id), keysOnly: true },
  ]
  const reads = placeReads(keys, ticket)
  if (wait === undefined) return { compare, success, failure: [...whyNot, ...reads] }
  const inLine: Txn = {
    compare: [notThere, notBuried],
    success: [{ op: 'put', key: ticket.key, value: ticketText(ticket), lease: wait.id }, ...reads],
    failure: whyNot,
  }
  if (crowded) return inLine
  return { compare, success, failure: [{ op: 'txn', ...inLine }] }
}

export async function take(store: Store, item: Joining, step: Step, call: Call): Promise<Standing> {
  const { sentAt } = call
  const { ticket, hold, wait } = item
  const { txn, header } = step
  if (txn.succeeded && !item.crowded) {
    ticket.create = header.revision
    store.tickets.grant(ticket)
    store.tickets.hang(ticket, hold, header.revision)
    return granted(header.revision, hold, sentAt)
  }
  if (wait === undefined) return await takeRefusal(store, item, step, call)
  const inner = item.crowded ? txn : txn.responses[0]?.txn
  if (inner?.succeeded !== true) return await takeStanding(store, item, inner, sentAt)
  ticket.create = header.revision
  store.tickets.hang(ticket, wait, header.revision)
  const place = placeFrom(store.keys, ticket, inner.responses.slice(1))
  if (place.granted) {
    store.tickets.grant(ticket)
    return await renewed(store, item, sentAt)
  }
  ticket.ahead = place.ahead
  // Until it has this answer, core counts a grant that it is told of from when it asked, with the whole waiting ttl.
  const watch = (): void => store.rechecks.watch(ticket, place, header.revision)
  if (wait.untilMs - sentAt >= item.request.waitTtlMs) watch()
  else call.later.push(watch)
  return waiting(place.ahead, wait, sentAt)
}

/** It was neither free nor put in line: it stands there already (a repeated join), or it is buried. */
async function takeStanding(
  store: Store,
  item: Joining,
  inner: TxnAnswer | undefined,
  sentAt: number,
): Promise<Standing> {
  const own = inner?.responses[0]?.range?.kvs[0]
  const buried = (inner?.responses[1]?.range?.count ?? 0) > 0
  return own !== undefined && !buried ? await renewed(store, item, sentAt) : { state: 'gone' }
}

async function takeRefusal(store: Store, item: Joining, step: Step, call: Call): Promise<Standing> {
  let { txn, header } = step
  for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
    if (txn.succeeded) return await take(store, item, { txn, header }, call)
    const [own, tombstone, ...reads] = txn.responses
    if (own?.range?.kvs[0] !== undefined || (tombstone?.range?.count ?? 0) > 0) {
      return await takeStanding(store, item, txn, call.sentAt)
    }
    if (!placeFrom(store.keys, item.ticket, reads).granted) break
    // A semaphore with tickets, and room: put it there, provided that nobody came since.
    item.fitsAt = header.revision
    const [again] = await runSteps(store, [joinStep(store, item)])
    if (again === undefined || again instanceof Error) return failed(DOING, again)
    ;({ txn, header } = again)
  }
  return { state: 'refused' }
}

/** Where a ticket stands that is there already: its renewal says so, and puts it under the right lease. */
async function renewed(store: Store, { request, ticket }: Joining, sentAt: number): Promise<Standing> {
  const { line, id, ttlMs, waitTtlMs } = request
  const [standing] = await renew(store, [{ line, id, handle: ticket.handle, ttlMs, waitTtlMs }], sentAt)
  return standing ?? failed(DOING, new Error('no answer'))
}
