/**
 * The port: what a store must be able to do. Types and their contract, no code.
 *
 * Waiting, renewing, timing out, retrying, undoing and re-entry are written once, in core. A backend
 * makes one attempt, answers for every item, and never decides that an error means "no".
 */
import type { BackendError } from './errors.js'
import type { LineKey } from './line.js'

export interface Backend {
  /** The store's name as in its package export: 'memory', 'sqlite', 'redis' … */
  readonly name: string
  /** What this store promises, as plain data: documents and the option `require` read it. */
  readonly guarantees: Guarantees
  /** The most items core puts into one call, so that one call's work on the store is bounded. */
  readonly maxBatch: number
  /**
   * Joins and leaves of at least so many items are sent although others are under way: for a store that works on them one
   * after the other, so that it and its client need not wait for each other. Left out: one call of a kind at a time.
   */
  readonly worthPipelining?: number

  /**
   * Connects, makes what must exist, and starts to report. Called before anything else, and again if it rejected.
   * Rejects with an error that says what to do when the URL, password or server version is wrong.
   */
  open(events: BackendEvents): Promise<void>

  /**
   * Stand in line. For each request, in one atomic step of the store:
   * - an id that stands already keeps its place and order, and its lease starts anew (idempotent);
   * - an id with a tombstone answers `gone`;
   * - `takeover` first drops this owner's tickets that belong to another client;
   * - else a ticket is put at the end. When the grant rule grants it: `granted`, with a lease of `ttlMs`.
   * - Not granted and `wait`: `waiting`, with a lease of `waitTtlMs`. Not granted and not `wait`: `refused`,
   *   and nothing stands.
   * Requests that share a `group` are all granted or none stands, in one step (only sent when
   * `guarantees.atomicGroup`, always with `wait: false`, and never two of one line).
   * Tickets whose lease has ended, by the store's clock, do not count and are removed on the way.
   */
  join(requests: readonly JoinRequest[]): Promise<Standing[]>

  /**
   * Keep alive, and say where each ticket stands: a granted one gets `ttlMs` anew, a waiting one `waitTtlMs`.
   * A ticket that is not there, has left, or whose handle differs answers `gone`. It is also how a poll
   * looks: core calls it again at `lookAgainMs`. Must not wait for locks that a join or leave may hold.
   * With `nextHandle` the handle is swapped in the same step; a repeated swap succeeds again.
   */
  renew(tickets: readonly RenewRequest[]): Promise<Standing[]>

  /**
   * Release or give up. True: the ticket stood and is gone now, and whom the rule now grants has been told.
   * False: there was no such ticket of this handle (already left, lapsed or evicted), nothing was changed
   * (but the tombstone is written all the same).
   */
  leave(tickets: readonly LeaveRequest[]): Promise<(boolean | BackendError)[]>

  /** The live tickets of each line of that name (every kind that has any), in order. */
  view(name: string): Promise<LineView[]>

  /** The names that have at least one live ticket and start with the prefix; each once, in any order. */
  names(prefix: string): AsyncIterable<string>

  /** Lets go of connections, timers and watches of its own. Tickets have been left before. */
  close(): Promise<void>
}

/**
 * A backend of which a quorum can be made: it accepts a floor for its orders, so that the orders of several
 * servers can be brought to agree, and says which run of its server it speaks to. It calls `events.unsure()`
 * after a broken connection and before any answer that came by the new one.
 */
export interface FloorBackend extends Backend {
  /** Which run of the server this is, and what it knows. */
  origin(): Promise<Origin>
  /** From now on every order is above the floor. `run` is noted: that run has learnt the floor. */
  raise(floor: bigint, run: string): Promise<void>
}

/** One run of a store's server. */
export interface Origin {
  /** Another text after every restart. */
  readonly run: string
  readonly upMs: number
  /** The last order given, 0 when it knows none. */
  readonly last: bigint
  /** What its orders are drawn from now, where that is a clock: others can ask for a floor just above it. */
  readonly clock: bigint
  /** Whether this very run was told a floor by `raise`. */
  readonly learnt: boolean
}

/**
 * What a backend reports by itself. A hint that saves time, never the only way to learn: the renewal
 * of a ticket says the same. `lost` and `unsure` only shorten belief, so they are believed at once.
 */
export interface BackendEvents {
  /** A waiting ticket is granted now; its waiting lease still runs. */
  granted(id: string, order: bigint): void
  /** Something in this line changed: the client's waiting tickets there look again. */
  moved(line: LineKey): void
  /** These tickets are gone: the session ended, or somebody evicted them. */
  lost(ids: readonly string[]): void
  /** The connection that keeps these tickets (all of the client's, when left out) broke: renew now, doubt until then. */
  unsure(ids?: readonly string[]): void
}

/** Who stands there, for people who look. Shown by `view`; only `owner` and `client` ever decide anything. */
export interface Holder {
  readonly owner: string
  /** The random id of the client (one `Holdfast` object) that made the ticket. */
  readonly client: string
  readonly host: string
  /** 0: no process stands for it any more (it was let go of, for another to adopt). */
  readonly pid: number
  readonly note?: string
  /** Further processes of this machine that work under the ticket: "its process is gone" means all of them. */
  readonly also?: readonly number[]
}

export interface JoinRequest {
  readonly line: LineKey
  readonly id: string
  readonly weight: number
  readonly capacity: number
  readonly wait: boolean
  /** The lease when granted, `grace` included. */
  readonly ttlMs: number
  /** The lease while waiting: short, so that a dead waiter delays nobody for long. */
  readonly waitTtlMs: number
  readonly holder: Holder
  readonly takeover: boolean
  readonly group?: string | undefined
  /** The order must be at least this. Only sent to a `FloorBackend`. */
  readonly floor?: bigint
}

/** Names a ticket, and proves that the caller may speak for it. */
export interface TicketRef {
  readonly line: LineKey
  readonly id: string
  /** Equal to the id until a handover swaps it (see `RenewRequest.nextHandle`). */
  readonly handle: string
  /** The order, once known: saves some stores a search. */
  readonly order?: bigint | undefined
}

export interface RenewRequest extends TicketRef {
  readonly ttlMs: number
  readonly waitTtlMs: number
  /** The ticket now belongs to this handle. */
  readonly nextHandle?: string
  /** The ticket now belongs to this holder, its client's inbox included. Comes with or without `nextHandle`. */
  readonly nextHolder?: Holder
  /** The ticket's order is raised to this when it is lower. Only sent to a `FloorBackend`, for a granted ticket. */
  readonly floor?: bigint
}

export interface LeaveRequest extends Omit<TicketRef, 'handle'> {
  /** Left out: whatever the handle (an eviction). */
  readonly handle?: string
  /**
   * Above 0: the ticket goes on standing for so long, marked as left, to keep others out (`minHold`).
   * Only sent when `guarantees.minHold` is 'store'.
   */
  readonly keepMs: number
  /**
   * Above 0: a join of this id may still be under way. For so long a join that arrives late must answer `gone`.
   */
  readonly tombstoneMs: number
}

/** Where a ticket stands. `failed` is unknown: neither yes nor no. */
export type Standing =
  | {
      readonly state: 'granted'
      readonly order: bigint
      /** The lease on the store, counted from when this call was sent. */
      readonly ttlMs: number
    }
  | {
      readonly state: 'waiting'
      /** How many tickets stand before it, as far as the store knows. */
      readonly ahead: number
      readonly ttlMs: number
      /** When it is worth looking again although nothing was pushed: a lease ahead ends, or the next poll. */
      readonly lookAgainMs: number
    }
  | { readonly state: 'refused' }
  | { readonly state: 'gone' }
  | { readonly state: 'failed'; readonly error: BackendError }

export interface LineView {
  readonly line: LineKey
  readonly tickets: readonly TicketView[]
}

export interface TicketView {
  readonly id: string
  readonly order: bigint
  readonly weight: number
  readonly capacity: number
  readonly holder: Holder
  /** Marked as left, still keeping others out (`minHold`). */
  readonly left: boolean
  /** How long ago it joined, by the store's clock; undefined where the store does not know. */
  readonly ageMs?: number
  /** What is left of its lease, by the store's clock; undefined where the store does not know. */
  readonly remainingMs?: number
}

/** What may happen to the store without two holders or a token going back. */
export type Survival =
  /** The process that holds or waits dies: the line moves on. */
  | 'client-crash'
  /** The store's server is restarted. */
  | 'store-restart'
  /** A replica takes over. */
  | 'store-failover'
  /** A minority of the store's servers is lost for good. */
  | 'minority-loss'

export interface Guarantees {
  readonly scope: 'process' | 'machine' | 'network'
  readonly order: 'fifo' | 'none'
  readonly wake: 'push' | 'poll'
  /** strict: never goes back; clock: goes back only as the sentence says; none: do not rely on it. */
  readonly fence: 'strict' | 'clock' | 'none'
  /** ticket: each hold has a lease of its own; session: it lasts as long as the client's session. */
  readonly lease: 'ticket' | 'session'
  /** Whether a hold can be handed to another process (`serialize` / `adopt`). */
  readonly handover: boolean
  /** Whether several lines are taken in one step. */
  readonly atomicGroup: boolean
  /** Who keeps `minHold` after a release: the store, or the process for as long as it lives. */
  readonly minHold: 'store' | 'process'
  readonly kinds: readonly LineKey['kind'][]
  readonly survives: readonly Survival[]
  readonly minTtlMs: number
  /** Longer ttls are refused; undefined: no limit. */
  readonly maxTtlMs?: number
  /** True where every hold lasts as long as the client's session, whatever its own `ttl` says: any is taken. */
  readonly fixedTtl?: boolean
  readonly ttlGranularityMs: number
  /** One honest sentence, with what a step of the store's clock does. */
  readonly sentence: string
}
