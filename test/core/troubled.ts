import { memory } from '../../src/backends/memory/index.js'
import type { Backend, Guarantees, LineView, Standing } from '../../src/core/backend.js'
import { Holdfast, type HoldfastOptions } from '../../src/core/holdfast.js'
import { Random } from '../simulation/random.js'
import { clockOf, VirtualTime } from '../simulation/virtual-clock.js'

/** What befalls a call: after the store did it (join, leave), or before (the others). */
interface Trouble {
  open?: () => Promise<void>
  join?: () => Promise<void>
  answer?: (standings: Standing[]) => Standing[]
  renew?: () => Promise<void>
  leave?: () => Promise<void>
  view?: () => Promise<void>
  names?: () => Promise<void>
}

interface Setting extends Pick<HoldfastOptions, 'callTimeout'> {
  readonly guarantees?: Partial<Guarantees>
}

/** A client on a virtual clock and a store in memory whose calls can be troubled and whose promises can be others. */
export function troubled({ guarantees, ...options }: Setting = {}) {
  const time = new VirtualTime()
  const clock = clockOf(time, { pausedUntil: 0, crashed: false }, new Random(7))
  const inside = memory({ clock })
  const trouble: Trouble = {}
  const closed: string[] = []
  const backend: Backend = {
    name: 'memory',
    guarantees: { ...inside.guarantees, ...guarantees },
    maxBatch: 100,
    open: async (events) => {
      await trouble.open?.()
      await inside.open(events)
    },
    join: async (requests) => {
      const standings = await inside.join(requests)
      await trouble.join?.()
      return trouble.answer?.(standings) ?? standings
    },
    renew: async (tickets) => {
      await trouble.renew?.()
      return await inside.renew(tickets)
    },
    leave: async (tickets) => {
      const left = await inside.leave(tickets)
      await trouble.leave?.()
      return left
    },
    view: async (name) => {
      await trouble.view?.()
      return await inside.view(name)
    },
    names: async function* (prefix) {
      await trouble.names?.()
      yield* inside.names(prefix)
    },
    close: async () => {
      closed.push('backend')
      await Promise.resolve()
    },
  }
  const locks = new Holdfast(backend, { clock, ttl: '9s', ...options })
  /** Lets so much time pass. */
  const at = async (ms: number): Promise<void> => {
    const until = time.now + ms
    await time.run(until, () => {})
    time.now = until
  }
  const later = (ms: number): Promise<void> => new Promise((resolve) => void time.after(ms, resolve))
  const view = (name: string): Promise<LineView[]> => inside.view(name)
  return { time, clock, trouble, locks, at, later, view, inside, backend, closed }
}
