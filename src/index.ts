export { connect, openBackend } from './connect.js'
export type {
  Backend,
  BackendEvents,
  Guarantees,
  Holder,
  JoinRequest,
  LeaveRequest,
  LineView,
  RenewRequest,
  Standing,
  Survival,
  TicketRef,
  TicketView,
} from './core/backend.js'
export type { Clock, Timer } from './core/clock.js'
export type { Duration } from './core/duration.js'
export type { Election, LeadOptions, Term } from './core/election.js'
export {
  BackendError,
  ClosedError,
  ConfigError,
  DeadlockError,
  LockError,
  type LockErrorCode,
  LockLostError,
  LockTimeoutError,
  UnsupportedError,
} from './core/errors.js'
export type { EventName, LockEvent } from './core/events.js'
export type { LockGroup } from './core/group.js'
export type { GroupLease } from './core/group-lease.js'
export { Holdfast, type HoldfastOptions, type ReadWriteLock } from './core/holdfast.js'
export type { Lease, LeaseState } from './core/lease.js'
export type { Kind, LineKey } from './core/line.js'
export type { Lock } from './core/lock.js'
export type { AcquireOptions, HoldOptions, LockOptions, TryOptions } from './core/options.js'
export { type LineInfo, type TicketInfo, ticketJson } from './core/view.js'
