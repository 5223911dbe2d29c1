import { BackendError } from '../../../core/errors.js'
import type { Connections } from '../connections.js'
import type { Register } from './register.js'

/** How long an evicted holder has to let go before its session is killed, and how often we look. */
const PATIENCE_MS = 2_000
const LOOK_MS = 25

/** Evicts a ticket of another process: notes it for its client to let go, and ends its connection when it does not. */
export async function evictElsewhere(
  register: Register,
  connections: Connections,
  id: string,
): Promise<boolean | BackendError> {
  const session = await register.strike(id)
  if (session === undefined) return false
  const patience = performance.now() + PATIENCE_MS
  while (performance.now() < patience) {
    if (await register.isGone(id)) return true
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS).unref())
  }
  // It hangs. Its connection may hold other locks as well: they are lost with it.
  const told = 'MySQL: the holder was told that it is evicted and has not answered'
  if (session === 0) return new BackendError(`${told}. Ask again in a moment.`, { retryable: true })
  try {
    await connections.run(`KILL ${session}`, 'evicting a ticket', { raw: true })
  } catch (cause) {
    if (await register.isGone(id)) return true
    return new BackendError(`${told}, and its connection cannot be ended.`, { retryable: false, cause })
  }
  return true
}
