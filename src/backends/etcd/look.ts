import type { LineView, TicketView } from '../../core/backend.js'
import { KINDS, type LineKey } from '../../core/line.js'
import { idOf } from './claim.js'
import { leaseRequest, readLease } from './messages.js'
import { readNote } from './note.js'
import { runReads, type Store } from './store.js'
import type { KeyValue, Op } from './txn.js'

const PAGE = 1_000

/** The lines of that name, with their tickets in order. */
export async function view(store: Store, name: string): Promise<LineView[]> {
  const lines = KINDS.map((kind): LineKey => ({ kind, name }))
  const readings = await runReads(store, [
    lines.map((line): Op => {
      const { key, end } = store.keys.line(line)
      return { op: 'range', key, rangeEnd: end, sort: 'oldest' }
    }),
  ])
  const found = lines.map((_, index) => readings[0]?.responses[index]?.range?.kvs ?? [])
  const left = await timesLeft(store, new Set(found.flat().map((kv) => kv.lease)))
  return lines
    .map((line, index) => ({ line, tickets: (found[index] ?? []).map((kv) => ticketView(store, line, kv, left)) }))
    .filter(({ tickets }) => tickets.length > 0)
}

function ticketView(store: Store, line: LineKey, kv: KeyValue, left: Map<bigint, number>): TicketView {
  const note = readNote(kv)
  const id = idOf(store, line, kv)
  const remainingMs = left.get(kv.lease)
  return {
    id,
    order: kv.create,
    weight: note?.weight ?? 1,
    capacity: note?.capacity ?? 1,
    // Another program's: etcdctl and Go name their keys after the lease, and say no more.
    holder: note?.holder ?? { owner: `lease ${id}`, client: '', host: '', pid: 0 },
    left: note?.left ?? false,
    ...(remainingMs === undefined ? {} : { remainingMs }),
  }
}

/** How long the leases still last, in whole seconds as the server tells it. */
async function timesLeft(store: Store, leases: ReadonlySet<bigint>): Promise<Map<bigint, number>> {
  const left = new Map<bigint, number>()
  await Promise.all(
    [...leases].map(async (id) => {
      if (id === 0n) return
      const { ttl } = await store.cluster.call('/etcdserverpb.Lease/LeaseTimeToLive', leaseRequest(id), readLease)
      if (ttl >= 0) left.set(id, ttl * 1_000)
    }),
  )
  return left
}

/** The names with at least one ticket that begin so. */
export async function* names(store: Store, prefix: string): AsyncGenerator<string> {
  const seen = new Set<string>()
  for (const kind of KINDS) {
    const { key, end } = store.keys.named(kind, prefix)
    let from = key
    for (;;) {
      const op = { op: 'range', key: from, rangeEnd: end, keysOnly: true, limit: PAGE } as const
      const kvs = (await runReads(store, [[op]]))[0]?.responses[0]?.range?.kvs ?? []
      for (const kv of kvs) {
        const name = store.keys.nameOf(kind, kv.key)
        if (name === undefined || !name.startsWith(prefix) || seen.has(name)) continue
        seen.add(name)
        yield name
      }
      const last = kvs.at(-1)
      if (last === undefined || kvs.length < PAGE) break
      // The first key after the last one there.
      from = `${last.key}\0`
    }
  }
}
