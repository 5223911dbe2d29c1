import type { Client } from 'pg'
import { destroy } from './destroy.js'

/**
 * How long one call may take: longer than any lock wait inside it, and not as long as core waits for it, so that what
 * fell silent can be asked again on another connection before a caller must be told that the outcome is unknown.
 */
const CALL_MS = 4_000
const LOOK_MS = 250

const underWay = new Map<Client, number>()
let timer: NodeJS.Timeout | undefined

/**
 * Breaks the connection when the call that starts now has no answer in time: pg then rejects it like any other
 * that was cut off. One timer for all, since a timer for each call costs more than the call's own work here.
 */
export function watch(client: Client, limitMs: number = CALL_MS): void {
  underWay.set(client, performance.now() + limitMs)
  timer ??= setInterval(look, LOOK_MS).unref()
}

export function unwatch(client: Client): void {
  underWay.delete(client)
}

export function isWatched(client: Client): boolean {
  return underWay.has(client)
}

/** The answer to what was just asked on a connection that nobody else uses yet. */
export async function watched<Answer>(client: Client, answer: Promise<Answer>, limitMs?: number): Promise<Answer> {
  watch(client, limitMs)
  try {
    return await answer
  } finally {
    unwatch(client)
  }
}

function look(): void {
  const now = performance.now()
  for (const [client, until] of underWay) {
    if (until > now) continue
    underWay.delete(client)
    destroy(client)
  }
  if (underWay.size > 0) return
  clearInterval(timer)
  timer = undefined
}
