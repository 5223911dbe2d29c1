import type { Connections } from '../connections.js'
import type { Register } from './register.js'

/** How long the holder has to let go by itself, and how often we look. */
const PATIENCE_MS = 1_000
const LOOK_MS = 25

/**
 * Evicts a ticket of another process: asks its client to let go, and ends its session when it does not.
 * The session may hold other locks too, so that comes last: the holder is stuck, or it would have answered.
 */
export async function evictElsewhere(register: Register, connections: Connections, id: string): Promise<boolean> {
  const found = await register.strike(id)
  if (found === undefined) return false
  await connections.run('an eviction', { text: 'SELECT pg_notify($1, $2)', values: [found.inbox, `x${id}`] })
  const until = performance.now() + PATIENCE_MS
  while (performance.now() < until) {
    if (!(await holds(connections, found))) return true
    await new Promise<void>((resolve) => setTimeout(resolve, LOOK_MS))
  }
  const text = `SELECT pg_terminate_backend(l.pid) FROM (${HOLDERS}) l`
  await connections.run('an eviction', { text, values: [found.line, found.inbox] })
  return true
}

/** The sessions that have that line's lock and belong to that client (its sessions are told by their name). */
const HOLDERS = `SELECT l.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
  WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
    AND (l.classid::bigint << 32) | l.objid::bigint = hashtextextended($1, 0) AND a.application_name = $2`

async function holds(connections: Connections, found: { line: string; inbox: string }): Promise<boolean> {
  const text = `SELECT EXISTS (${HOLDERS})::text AS held`
  const { rows } = await connections.run('an eviction', { text, values: [found.line, found.inbox] })
  return rows[0]?.['held'] === 'true'
}
