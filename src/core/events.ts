import { type Channel, channel } from 'node:diagnostics_channel'
import type { Kind } from './line.js'

/** What a subscriber of a `holdfast:*` diagnostics channel is given. */
export interface LockEvent {
  readonly store: string
  readonly kind: Kind
  readonly name: string
  readonly id: string
  readonly owner: string
  readonly fence?: bigint
  /** How long it took or lasted, where that makes sense: the wait of an acquire, the hold of a release. */
  readonly ms?: number
  readonly ahead?: number
  readonly error?: unknown
}

/** The channels by name. Nothing is paid when no one listens: `publish` is guarded by `hasSubscribers`. */
export const channels: Record<EventName, Channel> = {
  acquire: channel('holdfast:acquire'),
  wait: channel('holdfast:wait'),
  timeout: channel('holdfast:timeout'),
  renew: channel('holdfast:renew'),
  uncertain: channel('holdfast:uncertain'),
  lost: channel('holdfast:lost'),
  release: channel('holdfast:release'),
  error: channel('holdfast:error'),
}

export type EventName = 'acquire' | 'wait' | 'timeout' | 'renew' | 'uncertain' | 'lost' | 'release' | 'error'

/** Publishes an event that is only made when someone listens. */
export function publish(name: EventName, event: () => LockEvent): void {
  if (channels[name].hasSubscribers) channels[name].publish(event())
}
