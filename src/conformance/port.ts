import { randomUUID } from 'node:crypto'
import type { Backend, Holder } from '../core/backend.js'
import { BackendError } from '../core/errors.js'
import type { Heard, Port } from './case.js'

/** Opens a backend and keeps what it reports. */
export async function openPort(backend: Backend, idPrefix: string): Promise<Port> {
  const tag = (id: string): string => `${idPrefix}-${id}`
  const client = randomUUID()
  const grantedIds: string[] = []
  const lostIds: string[] = []
  const movedNames: string[] = []
  const heard: Heard = {
    grantedIds,
    lostIds,
    movedNames,
    granted: (id) => void grantedIds.push(id.slice(tag('').length)),
    lost: (ids) => void lostIds.push(...ids.map((id) => id.slice(tag('').length))),
    moved: (line) => void movedNames.push(line.name),
    unsure: () => {},
  }
  await backend.open(heard)
  const ttlMs = Math.max(10_000, backend.guarantees.minTtlMs)
  const holder: Holder = { owner: client, client, host: 'conformance', pid: process.pid }
  return {
    backend: patient(backend),
    heard,
    tag,
    join: (line, id, more) => {
      const base = {
        line,
        id: tag(id),
        weight: 1,
        capacity: 1,
        wait: true,
        ttlMs,
        waitTtlMs: ttlMs,
        holder,
        takeover: false,
      }
      return { ...base, ...more }
    },
    renew: (line, id, more) => ({ line, id: tag(id), handle: tag(id), ttlMs, waitTtlMs: ttlMs, ...more }),
    leave: (line, id, more) => ({ line, id: tag(id), handle: tag(id), keepMs: 0, tombstoneMs: 0, ...more }),
  }
}

const MOST_TRIES = 40
const PAUSE_MS = 50

/** Asks again where the answer is unknown and may be had later, as core does: a busy store is no broken one. */
function patient(backend: Backend): Backend {
  const asking = async <In, Out>(
    items: readonly In[],
    call: (items: readonly In[]) => Promise<Out[]>,
  ): Promise<Out[]> => {
    const results: Out[] = []
    let open = [...items.keys()]
    for (let tries = 1; ; tries += 1) {
      const last = tries === MOST_TRIES
      try {
        const answers = await call(open.map((i) => items[i]!))
        for (const [n, i] of open.entries()) results[i] = answers[n]!
      } catch (error) {
        if (last || !isPassing(error)) throw error
      }
      open = open.filter((i) => results[i] === undefined || isPassing(errorOf(results[i])))
      if (open.length === 0 || last) return results
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
  }
  return {
    name: backend.name,
    get guarantees() {
      return backend.guarantees
    },
    maxBatch: backend.maxBatch,
    open: (events) => backend.open(events),
    join: (requests) => asking(requests, (some) => backend.join(some)),
    renew: (tickets) => asking(tickets, (some) => backend.renew(some)),
    leave: (tickets) => asking(tickets, (some) => backend.leave(some)),
    view: (name) => backend.view(name),
    names: (prefix) => backend.names(prefix),
    close: () => backend.close(),
  }
}

function errorOf(result: unknown): unknown {
  if (result instanceof BackendError) return result
  return typeof result === 'object' && result !== null && 'error' in result ? result.error : undefined
}

function isPassing(error: unknown): boolean {
  return error instanceof BackendError && error.retryable
}
