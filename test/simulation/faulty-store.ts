import type { MemoryStore } from '../../src/backends/memory/index.js'
import { memory } from '../../src/backends/memory/index.js'
import type { Backend, BackendEvents } from '../../src/core/backend.js'
import { BackendError } from '../../src/core/errors.js'
import type { Random } from './random.js'
import { type Actor, clockOf, type VirtualTime } from './virtual-clock.js'

/** How bad the way to the store is. Probabilities a call (of a copy: a call that was not answered); milliseconds. */
export interface Weather {
  readonly slowMs: number
  readonly dropRequest: number
  readonly dropReply: number
  readonly repeat: number
  readonly dropPush: number
  readonly failItem: number
}

/** When the store itself is not well: it answers nothing meanwhile, or breaks every connection. */
export interface Outage {
  until: number
}

export const FAIR: Weather = { slowMs: 3, dropRequest: 0, dropReply: 0, repeat: 0, dropPush: 0, failItem: 0 }

/** Longer than any call lives: see CALL_LIFE_MS in place.ts. A copy never comes later than this. */
const LATEST_COPY_MS = 55_000

/**
 * A client's way to a correct store through a bad network: requests and replies are slow, get lost,
 * come twice, come in another order; pushes get lost; the store stalls and comes back.
 */
export function faultyBackend(options: {
  time: VirtualTime
  store: MemoryStore
  actor: Actor
  random: Random
  weather: () => Weather
  outage: Outage
}): Backend {
  const { time, store, actor, random, weather, outage } = options
  // The store's clock is nobody's: it runs while clients are paused.
  const inner = memory({ store, clock: clockOf(time, { pausedUntil: 0, crashed: false }, random) })

  const travel = (fn: () => void, to?: Actor): void => {
    const ms = random.chance(0.1) ? random.between(0, weather().slowMs * 10) : random.between(0, weather().slowMs)
    time.after(ms, fn, to)
  }

  const arrive = (fn: () => void): void => {
    // A stalled store takes its calls when it is back, in the order in which they came.
    if (outage.until > time.now) time.after(outage.until - time.now, () => arrive(fn))
    else fn()
  }

  const call = <T>(execute: () => Promise<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      const sentAt = time.now
      const { dropRequest, dropReply, repeat } = weather()
      const broken = new BackendError('the connection broke', { retryable: true })
      // What was never answered may arrive late, or again: after the client asked anew, or even left.
      const copy = (): void => {
        const left = Math.max(0, sentAt + LATEST_COPY_MS - time.now)
        if (random.chance(repeat)) time.after(random.between(0, left), () => arrive(() => void execute()))
      }
      if (random.chance(dropRequest)) {
        copy()
        return travel(() => reject(broken), actor)
      }
      travel(() =>
        arrive(() => {
          const answer = execute()
          if (!random.chance(dropReply)) return travel(() => void answer.then(resolve, reject), actor)
          copy()
          travel(() => reject(broken), actor)
        }),
      )
    })

  const spoil = <T>(results: T[], failed: (error: BackendError) => T): T[] =>
    results.map((result) =>
      random.chance(weather().failItem) ? failed(new BackendError('try again', { retryable: true })) : result,
    )

  return {
    name: 'faulty',
    guarantees: inner.guarantees,
    maxBatch: 4,
    // By turns one call of a kind at a time, and several that may overtake each other.
    ...(random.chance(0.5) ? { worthPipelining: 2 } : undefined),
    open: (events: BackendEvents) => {
      const push = (fn: () => void): void => {
        if (!random.chance(weather().dropPush)) travel(fn, actor)
      }
      return inner.open({
        granted: (id, order) => push(() => events.granted(id, order)),
        moved: (line) => push(() => events.moved(line)),
        lost: (ids) => push(() => events.lost(ids)),
        unsure: (ids) => push(() => events.unsure(ids)),
      })
    },
    join: async (requests) => spoil(await call(() => inner.join(requests)), (error) => ({ state: 'failed', error })),
    renew: async (tickets) => spoil(await call(() => inner.renew(tickets)), (error) => ({ state: 'failed', error })),
    leave: async (tickets) => spoil(await call(() => inner.leave(tickets)), (error): boolean | BackendError => error),
    view: (name) => inner.view(name),
    names: (prefix) => inner.names(prefix),
    close: () => inner.close(),
  }
}
