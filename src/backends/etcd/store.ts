import type { BackendEvents, Standing } from '../../core/backend.js'
import type { Cluster } from './cluster.js'
import { isMemberTrouble, storeError } from './failure.js'
import type { Keys } from './keys.js'
import type { KeepAlive, Lease, Leases } from './leases.js'
import type { Rechecks } from './recheck.js'
import type { Tickets } from './tickets.js'
import { type Header, type Op, readTxn, type Txn, type TxnAnswer, txnRequest } from './txn.js'
import type { Watches } from './watches.js'

/** What the operations of the backend share. */
export interface Store {
  readonly keys: Keys
  readonly cluster: Cluster
  readonly leases: Leases
  readonly tickets: Tickets
  readonly watches: Watches
  readonly rechecks: Rechecks
  readonly events: BackendEvents
}

/**
 * How many conditional steps travel in one Txn. etcd takes 128 operations (--max-txn-ops), counted along the
 * nesting; beyond 32 the gain is small and the Txn holds up others.
 */
const STEPS_A_TXN = 32

/** How many reads travel in one Txn; the server's limit is 128. */
const READS_A_TXN = 120

/** The answer to one step of a batch. */
export interface Step {
  readonly txn: TxnAnswer
  /** Of the Txn that carried it: its revision is that of every key that the step created. */
  readonly header: Header
}

export function runTxn(store: Store, txn: Txn): Promise<TxnAnswer> {
  return store.cluster.call('/etcdserverpb.KV/Txn', txnRequest(txn), readTxn)
}

/**
 * Runs conditional steps, many in a Txn, and answers or fails each by itself. No two may touch the same key,
 * or create keys of the same line: keys created in one Txn share their create revision.
 */
export async function runSteps(store: Store, steps: readonly Txn[]): Promise<(Step | Error)[]> {
  if (steps.length <= STEPS_A_TXN) return await runChunk(store, steps)
  const chunks: (readonly Txn[])[] = []
  for (let at = 0; at < steps.length; at += STEPS_A_TXN) chunks.push(steps.slice(at, at + STEPS_A_TXN))
  return (await Promise.all(chunks.map((chunk) => runChunk(store, chunk)))).flat()
}

async function runChunk(store: Store, steps: readonly Txn[]): Promise<(Step | Error)[]> {
  const [only] = steps
  if (only === undefined) return []
  try {
    if (steps.length === 1) {
      const txn = await runTxn(store, only)
      return [{ txn, header: txn.header }]
    }
    const success = steps.map((step) => ({ op: 'txn', ...step }) as const)
    const { header, responses } = await runTxn(store, { compare: [], success, failure: [] })
    return steps.map((_, index) => {
      const txn = responses[index]?.txn
      return txn === undefined ? new Error('the answer to a Txn lacks a part') : { txn, header }
    })
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown))
    // Refused as a whole because of one (a lease that has ended, a permission): nothing of it was done.
    if (steps.length > 1 && !isMemberTrouble(error)) {
      const half = steps.length >> 1
      const halves = [steps.slice(0, half), steps.slice(half)]
      return (await Promise.all(halves.map((part) => runChunk(store, part)))).flat()
    }
    return steps.map(() => error)
  }
}

/** Many readings, in few Txns; each reading is of one moment. */
export async function runReads(
  store: Store,
  readings: readonly (readonly Op[])[],
): Promise<{ readonly responses: TxnAnswer['responses']; readonly header: Header }[]> {
  const chunks: (readonly Op[])[][] = []
  let room = 0
  for (const reading of readings) {
    if (reading.length > room) {
      chunks.push([])
      room = READS_A_TXN
    }
    chunks.at(-1)?.push(reading)
    room -= reading.length
  }
  const answers = await Promise.all(
    chunks.map(async (chunk) => {
      const { header, responses } = await runTxn(store, { compare: [], success: chunk.flat(), failure: [] })
      let at = 0
      return chunk.map((reading) => ({ header, responses: responses.slice(at, (at += reading.length)) }))
    }),
  )
  return answers.flat()
}

/** The keep-alives that are sent beside a call; a lease whose keep-alive failed has the error instead. */
export type Beats = Map<Lease, KeepAlive | undefined | Error>

/** Keeps leases alive, those that were not only just. */
export async function beat(store: Store, leases: Iterable<Lease>): Promise<Beats> {
  const beats: Beats = new Map()
  await Promise.all(
    [...new Set(leases)].map(async (lease) => {
      if (lease.gone || !store.leases.isWorn(lease)) return
      try {
        beats.set(lease, await store.leases.keepAlive(lease))
      } catch (error) {
        beats.set(lease, error instanceof Error ? error : new Error(String(error)))
      }
    }),
  )
  return beats
}

/** Believes what was kept alive, as far as an answer of that term vouches for it. Says why not, where not. */
export function settle(store: Store, beats: Beats, lease: Lease, term: bigint): Error | undefined {
  const result = beats.get(lease)
  if (result === undefined) return undefined
  if (result instanceof Error) return result
  return store.leases.confirm(result, term) ? undefined : new Error('the leader changed during the keep-alive')
}

export function granted(order: bigint, lease: Lease, sentAt: number): Standing {
  return { state: 'granted', order, ttlMs: Math.max(0, lease.untilMs - sentAt) }
}

export function waiting(ahead: number, lease: Lease, sentAt: number): Standing {
  const ttlMs = Math.max(0, lease.untilMs - sentAt)
  // The watch tells; a renewal, which comes sooner than this, tells the same.
  return { state: 'waiting', ahead, ttlMs, lookAgainMs: ttlMs }
}

export function failed(doing: string, cause: unknown): Standing {
  return { state: 'failed', error: storeError(doing, cause) }
}
