import { randomUUID } from 'node:crypto'
import type { Backend, Holder } from '../core/backend.js'
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
    backend,
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
