import type { JoinRequest, Standing } from '../../core/backend.js'
import { lineText } from '../../core/line.js'
import { isLeaseGone } from './failure.js'
import { noNewRivals, noRivals, placeFrom, placeReads } from './grant.js'
import { joinGroup } from './group.js'
import type { Lease } from './leases.js'
import type { Compare, Op, Txn, TxnAnswer } from './messages.js'
import { renew } from './renew.js'
import { beat, failed, granted, runSteps, settle, type Step, type Store, waiting } from './store.js'
import { dropEarlier } from './takeover.js'
import { type Ticket, ticketText } from './tickets.js'

/** A request on its way: its ticket, and the leases that it may be put under. */
interface Joining {
  readonly request: JoinRequest
  readonly ticket: Ticket
  readonly hold: Lease
  /** Undefined when it does not wait. */
  readonly wait: Lease | undefined
  /** Asked only whether it is free: the rest makes the call four times as long, and is seldom needed. */
  lean: boolean
  /** A revision at which it was read that the ticket fits. */
  fitsAt?: bigint
}

type Standings = Map<JoinRequest, Standing>

/** What the parts of one call share. */
interface Call {
  readonly sentAt: number
  readonly standings: Standings
  /** What begins when core has the answers. */
  readonly later: (() => void)[]
}

const DOING = 'joining a line'

/** How often a try for a semaphore looks again because somebody joined between the look and the put. */
const MOST_LOOKS = 10

/** Stands in line for each request. */
export async function join(store: Store, requests: readonly JoinRequest[]): Promise<Standing[]> {
  const sentAt = performance.now()
  const standings: Standings = new Map()
  const later: (() => void)[] = []
  // Before anything is awaited: a leave that overtakes its join must know which key to bury.
  const tickets = requests.map((request) => store.tickets.take(request))
  for (const ticket of tickets) ticket.joining += 1
  const singles = requests.filter((request) => request.group === undefined)
  const groups = new Map<string, JoinRequest[]>()
  for (const request of requests) {
    if (request.group === undefined) continue
    const group = groups.get(request.group) ?? []
    group.push(request)
    groups.set(request.group, group)
  }
  await Promise.all([
    joinSingles(store, singles, { sentAt, standings, later }),
    ...[...groups.values()].map((group) => joinGroup(store, group, sentAt, standings)),
  ])
  if (later.length > 0) setImmediate(() => later.forEach((watch) => watch()))
  return requests.map((request, index) => {
    const standing = standings.get(request) ?? failed(DOING, new Error('no answer'))
    const ticket = store.tickets.get(request.id) ?? tickets[index]!
    ticket.joining -= 1
    if (standing.state === 'failed') ticket.spoilt = true
    if (standing.state === 'refused' || standing.state === 'gone') store.tickets.remove(ticket)
    return standing
  })
}

/**
 * Keys that are created in one Txn share their create revision, so no two tickets of a line go into one:
 * the first of each line together, then the second ones, in the order in which they were asked for.
 */
async function joinSingles(store: Store, requests: readonly JoinRequest[], call: Call): Promise<void> {
  const depth = new Map<string, number>()
  const waves: JoinRequest[][] = []
  for (const request of requests) {
    const line = lineText(request.line)
    const wave = depth.get(line) ?? 0
    depth.set(line, wave + 1)
    ;(waves[wave] ??= []).push(request)
  }
  for (const wave of waves) await joinWave(store, wave, call, { lean: true, retries: 1 })
}

async function joinWave(
  store: Store,
  requests: readonly JoinRequest[],
  call: Call,
  { lean, retries }: { readonly lean: boolean; readonly retries: number },
): Promise<void> {
  const { standings } = call
  const items = await prepare(store, requests, standings, lean)
  // The keep-alives first: an answer to a call that was sent before them would not vouch for them.
  const [beats, steps] = await Promise.all([
    beat(
      store,
      items.flatMap(({ hold, wait }) => (wait === undefined ? [hold] : [hold, wait])),
    ),
    runSteps(
      store,
      items.map((item) => joinStep(store, item)),
    ),
  ])
  const stale: Joining[] = []
  const taken: Joining[] = []
  for (const [index, item] of items.entries()) {
    const step = steps[index] ?? new Error('no answer')
    if (step instanceof Error) {
      if (isLeaseGone(step) && retries > 0) stale.push(item)
      else standings.set(item.request, failed(DOING, step))
      // It may stand there, unknown: nobody renews it, so it is swept.
      store.tickets.keep(item.ticket, item.hold.ttlMs)
      continue
    }
    // Where a keep-alive failed, what is left of the lease is what the answer says.
    settle(store, beats, item.hold, step.header.term)
    if (item.wait !== undefined) settle(store, beats, item.wait, step.header.term)
    if (item.lean && !step.txn.succeeded) taken.push(item)
    else standings.set(item.request, await take(store, item, step, call))
  }
  if (taken.length > 0) await joinFully(store, taken, call)
  if (stale.length > 0) await joinStale(store, stale, call)
}

/** Not free: now the whole question. */
async function joinFully(store: Store, items: readonly Joining[], call: Call): Promise<void> {
  await joinWave(
    store,
    items.map(({ request }) => request),
    call,
    { lean: false, retries: 1 },
  )
}

/** A lease had ended before its time: find out which, and put these tickets under new ones. */
async function joinStale(store: Store, items: readonly Joining[], call: Call): Promise<void> {
  const leases = new Set(items.flatMap(({ hold, wait }) => (wait === undefined ? [hold] : [hold, wait])))
  await Promise.allSettled([...leases].map((lease) => store.leases.keepAlive(lease)))
  await joinWave(
    store,
    items.map(({ request }) => request),
    call,
    { lean: false, retries: 0 },
  )
}

/** Finds the leases and the tickets; what cannot even have that is answered. */
async function prepare(
  store: Store,
  requests: readonly JoinRequest[],
  standings: Standings,
  lean: boolean,
): Promise<Joining[]> {
  const items = await Promise.all(
    requests.map(async (request): Promise<Joining | undefined> => {
      const ticket = store.tickets.take(request)
      try {
        if (request.takeover) await dropEarlier(store, request)
        const [hold, wait] = await Promise.all([
          store.leases.get(request.ttlMs),
          request.wait ? store.leases.get(request.waitTtlMs) : undefined,
        ])
        return { request, hold, wait, ticket, lean: lean && request.wait && !store.tickets.hasCompany(ticket) }
      } catch (error) {
        standings.set(request, failed(DOING, error))
        return undefined
      }
    }),
  )
  return items.filter((item) => item !== undefined)
}

/**
 * Everything in one step and one round trip. Free: put under the hold's lease. Else, if it waits and is neither
 * there nor buried: put under the waiting lease, and read what stands before it. Else read why not.
 */
function joinStep(store: Store, item: Joining): Txn {
  const { keys } = store
  const { ticket, hold, wait, fitsAt, lean } = item
  const notBuried: Compare = { key: keys.tombstone(ticket.id), target: 'version', is: '=', value: 0 }
  const notThere: Compare = { key: ticket.key, target: 'version', is: '=', value: 0 }
  const free = fitsAt === undefined ? noRivals(keys, ticket) : noNewRivals(keys, ticket, fitsAt)
  const success: Op[] = [{ op: 'put', key: ticket.key, value: ticketText(ticket, true), lease: hold.id }]
  const compare = [free, notThere, notBuried]
  if (lean) return { compare, success, failure: [] }
  const whyNot: Op[] = [
    { op: 'range', key: ticket.key, keysOnly: true },
    { op: 'range', key: keys.tombstone(ticket.id), keysOnly: true },
  ]
  const reads = placeReads(keys, ticket)
  const inLine: Op[] =
    wait === undefined
      ? [...whyNot, ...reads]
      : [
          {
            op: 'txn',
            compare: [notThere, notBuried],
            success: [{ op: 'put', key: ticket.key, value: ticketText(ticket, false), lease: wait.id }, ...reads],
            failure: whyNot,
          },
        ]
  return { compare, success, failure: inLine }
}

async function take(store: Store, item: Joining, step: Step, call: Call): Promise<Standing> {
  const { sentAt } = call
  const { ticket, hold, wait } = item
  const { txn, header } = step
  if (txn.succeeded) {
    ticket.create = header.revision
    store.tickets.grant(ticket)
    store.tickets.hang(ticket, hold)
    return granted(header.revision, hold, sentAt)
  }
  if (wait === undefined) return await takeRefusal(store, item, step, call)
  const inner = txn.responses[0]?.txn
  if (inner?.succeeded !== true) return await takeStanding(store, item, inner, sentAt)
  ticket.create = header.revision
  store.tickets.hang(ticket, wait)
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
