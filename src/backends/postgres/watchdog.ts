import type { Client } from 'pg'
import { destroy } from './destroy.js'

/** How long one call may take: as long as core waits for it, and longer than any lock wait inside it. */
const CALL_MS = 5_000
const LOOK_MS = 1_000

const underWay = new Map<Client, number>()
let timer: NodeJS.Timeout | undefined

/**
 * Breaks the connection when the call that starts now has no answer in time: pg then rejects it like any other
 * that was cut off. One timer for all, since a timer for each call costs more than the call's own work here.
 */
export function watch(client: Client): void {
  underWay.set(client, performance.now())
  timer ??= setInterval(look, LOOK_MS).unref()
}

export function unwatch(client: Client): void {
  underWay.delete(client)
}

function look(): void {
  const before = performance.now() - CALL_MS
  for (const [client, since] of underWay) {
    if (since > before) continue
    underWay.delete(client)
    destroy(client)
  }
  if (underWay.size > 0) return
  clearInterval(timer)
  timer = undefined
}
