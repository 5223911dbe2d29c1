import type { JoinRequest } from '../../core/backend.js'
import { readNote } from './note.js'
import { runReads, runTxn, type Store } from './store.js'
import type { Compare, KeyValue, Op } from './txn.js'

/** How long the note to a client that it lost a ticket lies in its inbox, for it to see. */
const INBOX_MS = 30_000

/** The most tickets that one owner is taken to have left behind in a line, so that they fit into one Txn. */
const MOST_EARLIER = 30

/** Drops the tickets that this owner has in the line from an earlier life. */
export async function dropEarlier(store: Store, request: JoinRequest): Promise<void> {
  const { key, end } = store.keys.line(request.line)
  const tombstone = store.keys.tombstone(request.id)
  for (;;) {
    const [line] = await runReads(store, [
      [
        { op: 'range', key, rangeEnd: end, sort: 'oldest' },
        { op: 'range', key: tombstone, keysOnly: true },
      ],
    ])
    const [tickets, buried] = line?.responses ?? []
    const kvs = tickets?.range?.kvs ?? []
    // Once: a copy of the join that arrives later must not drop who came after it.
    if ((buried?.range?.count ?? 0) > 0 || kvs.some((kv) => readNote(kv)?.id === request.id)) return
    const earlier = kvs.filter((kv) => {
      const note = readNote(kv)
      // What was released already keeps others out on purpose (minHold): it stays.
      if (note === undefined || note.left === true) return false
      return note.holder.owner === request.holder.owner && note.holder.client !== request.holder.client
    })
    if (earlier.length === 0) return
    const compare = earlier
      .slice(0, MOST_EARLIER)
      .map((kv): Compare => ({ key: kv.key, target: 'mod', is: '=', value: kv.mod }))
    const drops = await Promise.all(earlier.slice(0, MOST_EARLIER).map((kv) => takeAway(store, kv)))
    // One letter a client and Txn: a key is put once. The others learn it at their next renewal.
    const letters = new Map(drops.flatMap(({ letter }) => (letter === undefined ? [] : [[letter.key, letter]])))
    const success = [...drops.map(({ drop }) => drop), ...letters.values()]
    compare.push({ key: tombstone, target: 'version', is: '=', value: 0 })
    await runTxn(store, { compare, success, failure: [] })
  }
}

/** What takes a ticket away from its holder, and the letter that tells its client. */
export async function takeAway(store: Store, kv: KeyValue): Promise<{ drop: Op; letter?: Op & { op: 'put' } }> {
  const drop: Op = { op: 'delete', key: kv.key }
  const note = readNote(kv)
  if (note === undefined) return { drop }
  const lease = await store.leases.forgetful(INBOX_MS)
  return { drop, letter: { op: 'put', key: store.keys.inbox(note.holder.client), value: note.id, lease: lease.id } }
}
