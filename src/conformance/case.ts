import type { Backend, BackendEvents, Guarantees, JoinRequest, LeaveRequest, RenewRequest } from '../core/backend.js'
import type { Holdfast, HoldfastOptions } from '../core/holdfast.js'
import type { LineKey } from '../core/line.js'
import type { Taker } from './takers.js'

/** One thing that is true of every backend, as data: any test runner can run it. */
export interface Case {
  /** A sentence that is true when the case passes. */
  readonly name: string
  /**
   * What the store must promise for the case to apply. Who waits is to be seen only where the store keeps the line:
   * a case that looks at those who wait requires `order: 'fifo'`.
   */
  readonly requires?: Partial<Guarantees>
  /** Needs child processes, and so a way for them to reach the store. */
  readonly processes?: boolean
  run(context: Context): Promise<void>
}

/** A store under test. */
export interface Subject {
  /** A new backend on the same store each time, not yet opened. */
  readonly makeBackend: () => Backend | Promise<Backend>
  /** How a child process reaches the store: a URL for `connect`, or a module whose default export makes a backend. */
  readonly url?: string
  readonly module?: string
  /** The compiled taker, where it does not lie beside this file. */
  readonly takerPath?: string
}

/** What a case is given. Everything made through it is closed or killed when the case ends. */
export interface Context {
  /** A ttl that the store keeps and that a test can wait out. */
  readonly ttlMs: number
  readonly guarantees: Guarantees
  /** A name that no other case uses. */
  readonly name: (label?: string) => string
  /** A new client of the store, as another process would have one. */
  readonly connect: (options?: HoldfastOptions) => Promise<Holdfast>
  /** A new backend, opened, for talking to the port itself. */
  readonly port: () => Promise<Port>
  /** Waits until so many tickets stand in the mutex of that name, as this client sees it. */
  readonly stand: (locks: Holdfast, name: string, count: number) => Promise<void>
  /** A child process with a client of its own. */
  readonly taker: () => Promise<Taker>
}

/** A backend with its reports kept, and requests made short. */
export interface Port {
  readonly backend: Backend
  readonly heard: Heard
  /** The id on the store of what a case calls 'a': the same in all ports of a case, and nowhere else. */
  readonly tag: (id: string) => string
  readonly join: (line: LineKey, id: string, more?: Partial<JoinRequest>) => JoinRequest
  readonly renew: (line: LineKey, id: string, more?: Partial<RenewRequest>) => RenewRequest
  readonly leave: (line: LineKey, id: string, more?: Partial<LeaveRequest>) => LeaveRequest
}

export interface Heard extends BackendEvents {
  readonly grantedIds: readonly string[]
  readonly lostIds: readonly string[]
  readonly movedNames: readonly string[]
}
