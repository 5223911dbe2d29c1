import { HEAD } from './join.js'
import { type LineStore, type Snapshot } from './line-store.js'
import { type Entry, grantedEntries, without } from './line-value.js'
import type { OwnLine, OwnTickets } from './own-tickets.js'

const SHORTEST_MS = 1
const LONGEST_MS = 100
/** The next look comes after this part of the time for which nothing moved: a wake-up is late by at most so much of a hold. */
const PATIENCE = 1 / 8
/** How often the head is asked whether it still lives: leases count in seconds. */
const LIFE_MS = 100
/** After a look that failed. */
const REST_MS = 250
const REST_FACTOR = 2

interface Watched {
  lookAt: number
  /** The order of the first that waited when last seen, and since when it is the first. */
  next: number
  since: number
  /** How long it took lately until the next one was granted. */
  paceMs: number
  livesAskedAt: number
}

/**
 * The poll: looks at every line in which a ticket of this client waits, one get a line however many wait in it,
 * often while the line moves and seldom while it stands. It also drops heads whose lease ended.
 */
export class Watch {
  readonly #own: OwnTickets
  readonly #storeOf: (name: string) => LineStore
  readonly #watched = new Map<OwnLine, Watched>()
  #timer: NodeJS.Timeout | undefined
  #timerAt = Number.POSITIVE_INFINITY
  #closed = false

  constructor(own: OwnTickets, storeOf: (name: string) => LineStore) {
    this.#own = own
    this.#storeOf = storeOf
  }

  /** Something was done in this line: from now on it is looked at if a ticket of this client waits there. */
  update(text: string): void {
    const line = this.#own.byText(text)
    if (this.#closed || line === undefined || this.#watched.has(line) || !waits(line)) return
    const now = performance.now()
    this.#watched.set(line, { lookAt: now, next: 0, since: now, paceMs: 0, livesAskedAt: 0 })
    this.#wakeAt(now)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#watched.clear()
  }

  #wakeAt(time: number): void {
    if (this.#closed || time >= this.#timerAt) return
    clearTimeout(this.#timer)
    this.#timerAt = time
    this.#timer = setTimeout(() => this.#wake(), Math.max(0, time - performance.now()))
    this.#timer.unref()
  }

  #wake(): void {
    this.#timerAt = Number.POSITIVE_INFINITY
    const now = performance.now()
    let next = Number.POSITIVE_INFINITY
    for (const [line, watched] of this.#watched) {
      if (!waits(line)) {
        this.#watched.delete(line)
        continue
      }
      if (watched.lookAt <= now + 1) {
        // Not again until this look is over.
        watched.lookAt = Number.POSITIVE_INFINITY
        void this.#look(line, watched)
      }
      next = Math.min(next, watched.lookAt)
    }
    if (next !== Number.POSITIVE_INFINITY) this.#wakeAt(next)
  }

  async #look(line: OwnLine, watched: Watched): Promise<void> {
    const startedAt = performance.now()
    try {
      const snapshot = await this.#see(line, watched)
      const now = performance.now()
      // A look at a line of thousands takes a while: most of the time is left for other work.
      const rest = (now - startedAt) * REST_FACTOR
      watched.lookAt = now + Math.max(rest, pauseMs(line, snapshot, watched, now))
    } catch {
      // The renewals of these tickets meet the same trouble and report it; here it only means to look later.
      watched.lookAt = performance.now() + REST_MS
    }
    if (waits(line)) this.#wakeAt(watched.lookAt)
    else this.#watched.delete(line)
  }

  async #see(line: OwnLine, watched: Watched): Promise<Snapshot> {
    const store = this.#storeOf(line.line.name)
    const askedAt = performance.now()
    const snapshot = await store.readOne(line.line)
    this.#own.absorb(snapshot, askedAt)
    if (askedAt - watched.livesAskedAt < LIFE_MS || !waits(line)) return snapshot
    watched.livesAskedAt = askedAt
    const dead = await store.dead(snapshot.value.entries.slice(0, HEAD), snapshot.connection)
    if (dead.length === 0) return snapshot
    return await this.#drop(store, snapshot, dead)
  }

  /** Stores the line without its dead. Whoever else does it first saves us the work. */
  async #drop(store: LineStore, snapshot: Snapshot, dead: readonly Entry[]): Promise<Snapshot> {
    const askedAt = performance.now()
    const stored = await store.change(snapshot.line, snapshot, (seen) => {
      if (seen !== snapshot) return 'keep'
      return { write: without(seen.value, (entry) => dead.includes(entry)) }
    })
    this.#own.absorb(stored, askedAt)
    return stored
  }
}

/** Whether a ticket of this client waits there. */
function waits(line: OwnLine): boolean {
  for (const ticket of line.tickets.values()) if (!ticket.granted && !ticket.leaving) return true
  return false
}

/** When to look again, after a look that showed this. */
function pauseMs(line: OwnLine, { value }: Snapshot, watched: Watched, now: number): number {
  const held = grantedEntries(value).length
  const next = value.entries[held]?.order ?? value.next
  if (next !== watched.next) {
    const passed = Math.max(1, next - watched.next)
    watched.paceMs = (watched.paceMs + (now - watched.since) / passed) / 2
    watched.next = next
    watched.since = now
  }
  const first = value.entries.findIndex(({ id }, index) => index >= held && line.tickets.has(id))
  const ahead = Math.max(0, first - held)
  const base = Math.max((now - watched.since) * PATIENCE, SHORTEST_MS)
  // Those further back cannot be next: they look when half of those before them should have gone.
  const pause = Math.min(Math.max(base, (ahead * watched.paceMs) / 2), LONGEST_MS)
  // Jitter keeps many clients from asking in step.
  return pause * (0.75 + Math.random() / 2)
}
