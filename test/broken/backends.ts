import { memory, MemoryStore } from '../../src/backends/memory/index.js'
import type { Backend, JoinRequest, LeaveRequest, RenewRequest } from '../../src/core/backend.js'
import { BackendError } from '../../src/core/errors.js'
import { lineText } from '../../src/core/line.js'

/** A correct backend with one thing wrong, on a store that all clients of a case share. */
type Break = (inner: Backend, shared: Shared) => Partial<Backend>

/** What a broken backend needs to know beyond one client: as if it were in the store. */
interface Shared {
  readonly store: MemoryStore
  readonly holders: Map<string, string>
  readonly orders: Map<string, bigint>
  last: bigint
}

/** Each is a mistake that somebody has shipped. */
export const BROKEN: Record<string, Break> = {
  'release without owner check': (inner, { holders }) => ({
    join: async (requests) => {
      const standings = await inner.join(requests)
      for (const [i, standing] of standings.entries()) {
        if (standing.state === 'granted') holders.set(lineText(requests[i]!.line), requests[i]!.id)
      }
      return standings
    },
    // DEL key, whoever's it is by now.
    leave: async (tickets) => {
      const blind = tickets.map((ticket) => blindly(ticket, holders.get(lineText(ticket.line))))
      return await inner.leave(blind)
    },
  }),
  'order drawn twice': (inner, shared) => ({
    // Two sessions read the counter before either writes it back.
    join: async (requests) =>
      (await inner.join(requests)).map((standing) => {
        if (standing.state !== 'granted') return standing
        const order = standing.order % 2n === 0n ? standing.order - 1n : standing.order
        shared.last = order
        return { ...standing, order }
      }),
  }),
  'late copy of a join after its leave': (inner) => ({
    leave: (tickets) => inner.leave(tickets.map((ticket) => ({ ...ticket, tombstoneMs: 0 }))),
  }),
  'reply lost and ticket doubled': (inner) => {
    const seen = new Map<string, number>()
    // Not idempotent: the same id again is a second ticket.
    const again = (request: JoinRequest): JoinRequest => {
      const times = (seen.get(request.id) ?? 0) + 1
      seen.set(request.id, times)
      return times === 1 ? request : { ...request, id: `${request.id}-${times}` }
    }
    return { join: (requests) => inner.join(requests.map(again)) }
  },
  'grant before the head left': (inner) => ({
    renew: async (tickets) =>
      (await inner.renew(tickets)).map((standing, i) =>
        standing.state === 'waiting' && standing.ahead === 1
          ? { state: 'granted', order: 1_000_000n + BigInt(i), ttlMs: tickets[i]!.ttlMs }
          : standing,
      ),
  }),
  'expiry ignored': (inner) => {
    const forever = 24 * 3_600_000
    return {
      join: async (requests) => {
        const asked = requests.map((request) => ({ ...request, ttlMs: forever, waitTtlMs: forever }))
        const standings = await inner.join(asked)
        return standings.map((standing, i) =>
          standing.state === 'granted' ? { ...standing, ttlMs: requests[i]!.ttlMs } : standing,
        )
      },
    }
  },
  'wake-up lost': (inner) => ({
    // Neither told by a push nor by the renewal: only who asks anew learns of the grant.
    open: (events) => inner.open({ ...events, granted: () => {} }),
    renew: async (tickets) =>
      (await inner.renew(tickets)).map((standing, i) =>
        standing.state === 'granted' && tickets[i]!.order === undefined
          ? { state: 'waiting', ahead: 1, ttlMs: tickets[i]!.waitTtlMs, lookAgainMs: 60_000 }
          : standing,
      ),
  }),
  'one bad item fails its batch': (inner) => ({
    join: async (requests) => {
      const standings = await inner.join(requests)
      const bad = standings.findIndex((standing) => standing.state === 'gone')
      if (bad !== -1) throw new BackendError('one of them is gone', { retryable: false })
      return standings
    },
  }),
  'a newcomer passes the line': (inner) => ({
    // As every lock that polls: whoever asks at the right moment gets it.
    join: async (requests) => {
      const wantsPermits = requests.map((request) =>
        request.line.kind === 'semaphore' ? { ...request, weight: 1 } : request,
      )
      const standings = await inner.join(wantsPermits)
      return standings.map((standing, i) =>
        standing.state === 'waiting' && requests[i]!.weight === 1 && requests[i]!.capacity > 1
          ? { state: 'granted', order: 0n, ttlMs: requests[i]!.ttlMs }
          : standing,
      )
    },
  }),
  'a renewal brings back what had left': (inner, { holders }) => {
    const left = new Map<string, LeaveRequest>()
    return {
      leave: (tickets) => {
        for (const ticket of tickets) left.set(ticket.id, ticket)
        return inner.leave(tickets)
      },
      renew: async (tickets: readonly RenewRequest[]) =>
        (await inner.renew(tickets)).map((standing, i) => {
          const ticket = tickets[i]!
          if (standing.state !== 'gone' || !left.has(ticket.id)) return standing
          holders.set(lineText(ticket.line), ticket.id)
          return { state: 'granted', order: ticket.order ?? 1n, ttlMs: ticket.ttlMs }
        }),
    }
  },
  'half of a group stands': (inner) => ({
    join: (requests) =>
      inner.join(
        requests.map((request) => {
          const { group: _, ...alone } = request
          return alone
        }),
      ),
  }),
  'every error is read as: someone else holds it': (inner) => ({
    join: async (requests) =>
      (await inner.join(requests)).map((standing) => (standing.state === 'gone' ? { state: 'refused' } : standing)),
  }),
}

function blindly(ticket: LeaveRequest, holder: string | undefined): LeaveRequest {
  if (holder === undefined) return ticket
  return { line: ticket.line, id: holder, keepMs: ticket.keepMs, tombstoneMs: ticket.tombstoneMs }
}

/** Makes backends of one broken kind that share a store. */
export function brokenMaker(name: string): () => Backend {
  const shared: Shared = { store: new MemoryStore(), holders: new Map(), orders: new Map(), last: 0n }
  return () => {
    const inner = memory({ store: shared.store })
    const broken = BROKEN[name]!(inner, shared)
    const call = (key: keyof Backend): unknown => {
      const own = broken[key] ?? inner[key]
      return typeof own === 'function' ? own.bind(broken[key] === undefined ? inner : broken) : own
    }
    const keys = ['name', 'guarantees', 'maxBatch', 'open', 'join', 'renew', 'leave', 'view', 'names', 'close'] as const
    return Object.fromEntries(keys.map((key) => [key, call(key)])) as unknown as Backend
  }
}
