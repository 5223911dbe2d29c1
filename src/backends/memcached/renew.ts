import type { RenewRequest, Standing } from '../../core/backend.js'
import type { LineKey } from '../../core/line.js'
import { LINE_SECONDS } from './guarantees.js'
import { ticketCommand, waiting } from './join.js'
import { isMiss, type LineStore, type Snapshot, secondsFor, valueOf } from './line-store.js'
import { find, isGranted, replace } from './line-value.js'
import type { OwnTickets } from './own-tickets.js'

const TOUCH_LINE = ` T${LINE_SECONDS}`

/**
 * Keeps the tickets of one line alive and says where each stands: touches their keys and reads the line, in one
 * round trip and in this order. A key that was touched lived until then, so nobody saw it dead before, and the
 * line that is read after it tells the truth for the whole new lease.
 */
export async function renewLine(
  store: LineStore,
  own: OwnTickets,
  line: LineKey,
  requests: readonly RenewRequest[],
): Promise<Standing[]> {
  const swaps = requests.filter(({ nextHandle }) => nextHandle !== undefined)
  const swapped = new Map<string, Standing>()
  for (const request of swaps) swapped.set(request.id, await swap(store, own, request))
  const plain = requests.filter(({ nextHandle }) => nextHandle === undefined)
  const renewed = plain.length === 0 ? new Map<string, Standing>() : await touchAll(store, own, line, plain)
  return requests.map(({ id, nextHandle }) => (nextHandle === undefined ? renewed : swapped).get(id)!)
}

async function touchAll(
  store: LineStore,
  own: OwnTickets,
  line: LineKey,
  requests: readonly RenewRequest[],
): Promise<Map<string, Standing>> {
  const askedAt = performance.now()
  const held = requests.map(({ id }) => own.ticket(line, id)?.granted === true)
  const touches = requests.map((request, index) => touch(store, request, held[index] === true))
  const { snapshots, replies } = await store.read([line], touches, held.includes(true) ? TOUCH_LINE : '')
  const missing = replies.map(isMiss)
  const snapshot = snapshots[0]!
  const standings = new Map<string, Standing>()
  const promoted: RenewRequest[] = []
  for (const [index, request] of requests.entries()) {
    const standing = missing[index] === true ? undefined : standingIn(snapshot, request)
    if (standing === undefined) own.forget(line, request.id)
    // It was touched for a waiting lease only: what it may believe in needs a second touch.
    if (standing?.state === 'granted' && held[index] === false) promoted.push(request)
    standings.set(request.id, standing ?? { state: 'gone' })
    if (standing !== undefined) noteLease(own, request, standing, askedAt)
  }
  if (promoted.length > 0) await promote(snapshot, store, own, promoted, standings)
  own.absorb(snapshot, askedAt)
  return standings
}

async function promote(
  snapshot: Snapshot,
  store: LineStore,
  own: OwnTickets,
  requests: readonly RenewRequest[],
  standings: Map<string, Standing>,
): Promise<void> {
  const askedAt = performance.now()
  const replies = await snapshot.connection.send(requests.map((request) => touch(store, request, true)))
  const missing = replies.map(isMiss)
  for (const [index, request] of requests.entries()) {
    if (missing[index] === true) {
      standings.set(request.id, { state: 'gone' })
      own.forget(request.line, request.id)
    } else noteLease(own, request, standings.get(request.id)!, askedAt)
  }
}

function noteLease(own: OwnTickets, request: RenewRequest, standing: Standing, askedAt: number): void {
  if (standing.state !== 'granted' && standing.state !== 'waiting') return
  const granted = standing.state === 'granted'
  const { id, handle } = request
  const known = own.ticket(request.line, id)
  const leasedUntil = askedAt + standing.ttlMs
  if (known === undefined) return own.put(request.line, { id, handle, granted, leasedUntil })
  known.granted = granted
  known.leasedUntil = leasedUntil
}

function touch(store: LineStore, request: RenewRequest, granted: boolean): string {
  const seconds = secondsFor(granted ? request.ttlMs : request.waitTtlMs)
  return `mg ${store.keys.ticket(request.handle)} T${seconds}`
}

function standingIn(snapshot: Snapshot, request: RenewRequest): Standing | undefined {
  const entry = find(snapshot.value, request.id)
  if (entry === undefined || entry.handle !== request.handle || entry.left) return undefined
  if (isGranted(snapshot.value, entry)) {
    return { state: 'granted', order: BigInt(entry.order), ttlMs: request.ttlMs }
  }
  return waiting(snapshot.value, entry, request.waitTtlMs)
}

/**
 * Hands a ticket over to another handle: the new key, then the line that names it, then the old key goes.
 * Repeated after a lost answer, it finds the new handle in the line and renews that.
 */
async function swap(store: LineStore, own: OwnTickets, request: RenewRequest): Promise<Standing> {
  const { line, id, handle, nextHandle, nextHolder } = request
  if (nextHandle === undefined) return { state: 'gone' }
  const askedAt = performance.now()
  let lives = false
  const snapshot = await store.change(line, undefined, async (seen) => {
    const entry = find(seen.value, id)
    if (entry === undefined || entry.left || (entry.handle !== handle && entry.handle !== nextHandle)) return 'keep'
    const key = store.keys.ticket(entry.handle)
    const [touched] = await seen.connection.send([`mg ${key} T${secondsFor(request.ttlMs)} v`])
    const value = valueOf(touched!)
    lives = value !== undefined
    if (value === undefined || entry.handle === nextHandle) return 'keep'
    const holder = nextHolder ?? JSON.parse(value.toString('utf8'))
    return {
      write: replace(seen.value, id, { handle: nextHandle }),
      before: [ticketCommand(store, nextHandle, holder, request.ttlMs)],
    }
  })
  const standing = lives ? standingIn(snapshot, { ...request, handle: nextHandle }) : undefined
  if (standing === undefined) return { state: 'gone' }
  await snapshot.connection.send([`md ${store.keys.ticket(handle)}`])
  const granted = standing.state === 'granted'
  own.put(line, { id, handle: nextHandle, granted, leasedUntil: askedAt + request.ttlMs })
  return standing
}
