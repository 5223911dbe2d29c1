import type { JoinRequest, Standing } from '../../core/backend.js'
import { isLeaseGone } from './failure.js'
import { noNewRivals, noRivals, placeFrom, placeReads } from './grant.js'
import type { Lease } from './leases.js'
import { readNote, ticketText } from './note.js'
import { beat, failed, granted, runReads, runTxn, settle, type Store } from './store.js'
import { dropEarlier } from './takeover.js'
import type { Ticket } from './tickets.js'
import type { Compare, Op, TxnAnswer } from './txn.js'

interface Member {
  readonly request: JoinRequest
  readonly ticket: Ticket
  readonly hold: Lease
}

const DOING = 'joining several lines in one step'

/** How often a group looks again because somebody joined one of its semaphores between the look and the put. */
const MOST_LOOKS = 10

/** Joins several lines in one Txn: granted in all of them, or standing in none. */
export async function joinGroup(
  store: Store,
  requests: readonly JoinRequest[],
  sentAt: number,
  standings: Map<JoinRequest, Standing>,
): Promise<void> {
  if (requests.some(({ id }) => store.tickets.get(id)?.lapsed === true)) {
    for (const request of requests) standings.set(request, { state: 'gone' })
    return
  }
  let members: Member[] = []
  try {
    members = await Promise.all(
      requests.map(async (request) => {
        if (request.takeover) await dropEarlier(store, request)
        const hold = await store.leases.get(request.ttlMs)
        return { request, hold, ticket: store.tickets.take(request) }
      }),
    )
    await joinAll(store, members, sentAt, standings)
  } catch (error) {
    // Which lease has ended is found out, so that the next try has a new one.
    if (isLeaseGone(error)) await Promise.allSettled(members.map(({ hold }) => store.leases.keepAlive(hold)))
    for (const request of requests) standings.set(request, failed(DOING, error))
  }
}

async function joinAll(
  store: Store,
  members: readonly Member[],
  sentAt: number,
  standings: Map<JoinRequest, Standing>,
): Promise<void> {
  for (const { ticket, hold } of members) store.tickets.keep(ticket, hold.ttlMs)
  let fitsAt: bigint | undefined
  for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
    const [beats, answer] = await Promise.all([
      beat(
        store,
        members.map(({ hold }) => hold),
      ),
      runTxn(store, groupTxn(store, members, fitsAt)),
    ])
    const verdict = await judge(store, members, answer)
    if (verdict.state === 'granted') {
      for (const [index, member] of members.entries()) {
        const create = verdict.creates[index]!
        settle(store, beats, member.hold, answer.header.term)
        member.ticket.create = create
        store.tickets.grant(member.ticket)
        store.tickets.hang(member.ticket, member.hold, create)
        standings.set(member.request, granted(create, member.hold, sentAt))
      }
      return
    }
    if (verdict.state !== 'again') {
      for (const { request } of members) standings.set(request, { state: verdict.state })
      return
    }
    fitsAt = verdict.fitsAt
  }
  for (const { request } of members) standings.set(request, { state: 'refused' })
}

/** Three conditions a line; so 40 lines stay within the 128 that etcd takes. */
function groupTxn(
  store: Store,
  members: readonly Member[],
  fitsAt: bigint | undefined,
): { compare: Compare[]; success: Op[]; failure: Op[] } {
  const { keys } = store
  const own = members.map(({ ticket }): Op => ({ op: 'range', key: ticket.key }))
  const compare = members.flatMap(({ ticket }): Compare[] => [
    fitsAt === undefined ? noRivals(keys, ticket) : noNewRivals(keys, ticket, fitsAt),
    { key: ticket.key, target: 'version', is: '=', value: 0 },
    { key: keys.tombstone(ticket.id), target: 'version', is: '=', value: 0 },
  ])
  const puts = members.map(
    ({ ticket, hold }): Op => ({ op: 'put', key: ticket.key, value: ticketText(ticket), lease: hold.id }),
  )
  return { compare, success: puts, failure: own }
}

type Verdict =
  | { state: 'granted'; creates: bigint[] }
  | { state: 'again'; fitsAt: bigint }
  | { state: 'refused' | 'gone' }

async function judge(store: Store, members: readonly Member[], answer: TxnAnswer): Promise<Verdict> {
  if (answer.succeeded) return { state: 'granted', creates: members.map(() => answer.header.revision) }
  const creates = members.map(({ ticket }, index) => {
    const own = answer.responses[index]?.range?.kvs[0]
    return own !== undefined && readNote(own)?.id === ticket.id ? own.create : undefined
  })
  // They were put in one Txn: that they are all there means that an earlier copy of this very join was carried out.
  if (creates.every((create) => create !== undefined)) return { state: 'granted', creates }
  // Somebody stood in one of these lines; a semaphore may have room beside them, and the others be free by now.
  const places = await runReads(
    store,
    members.map(({ ticket }) => placeReads(store.keys, ticket)),
  )
  const fits = members.every(({ ticket }, index) => placeFrom(store.keys, ticket, places[index]!.responses).granted)
  if (!fits) return { state: 'refused' }
  if (await isBuried(store, members)) return { state: 'gone' }
  // All of it was read at one revision or later ones: the first is what nobody may have come after.
  const revisions = places.map(({ header }) => header.revision)
  return { state: 'again', fitsAt: revisions.reduce((first, one) => (one < first ? one : first)) }
}

async function isBuried(store: Store, members: readonly Member[]): Promise<boolean> {
  const reads = members.map(({ ticket }): Op[] => [
    { op: 'range', key: store.keys.tombstone(ticket.id), keysOnly: true },
  ])
  const answers = await runReads(store, reads)
  return answers.some(({ responses }) => (responses[0]?.range?.count ?? 0) > 0)
}
