import type { JoinRequest, Standing } from '../../core/backend.js'
import { lineText } from '../../core/line.js'
import { isLeaseGone } from './failure.js'
import { joinGroup } from './group.js'
import { type Call, type Joining, joinStep, type Standings, take } from './join-step.js'
import { beat, failed, runSteps, settle, type Store } from './store.js'
import { dropEarlier } from './takeover.js'

const DOING = 'joining a line'

/** Stands in line for each request. */
export async function join(store: Store, requests: readonly JoinRequest[]): Promise<Standing[]> {
  const sentAt = performance.now()
  const standings: Standings = new Map()
  const later: (() => void)[] = []
  // Before anything is awaited: a leave that overtakes its join must know which key to bury.
  const tickets = requests.map((request) => store.tickets.take(request))
  for (const ticket of tickets) ticket.joining += 1
  const singles = requests.filter((request, index) => request.group === undefined && !tickets[index]!.lapsed)
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
    const ticket = store.tickets.get(request.id) ?? tickets[index]!
    ticket.joining -= 1
    // Its drop is on its way, and goes on until it is done.
    if (tickets[index]!.lapsed) return { state: 'gone' }
    const standing = standings.get(request) ?? failed(DOING, new Error('no answer'))
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
        const inCompany = request.wait && store.tickets.hasCompany(ticket)
        // Readers do not stand in each other's way.
        const crowded = inCompany && (ticket.line.kind !== 'rw' || ticket.weight === ticket.capacity)
        return { request, hold, wait, ticket, lean: lean && request.wait && !inCompany, crowded }
      } catch (error) {
        standings.set(request, failed(DOING, error))
        return undefined
      }
    }),
  )
  return items.filter((item) => item !== undefined)
}
