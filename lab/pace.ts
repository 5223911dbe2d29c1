/**
 * Time as a busy machine lives it. Where too many want to run, a process may stand still for a while through no fault
 * of its own; such a gap counts as one long beat only. So what is given “five seconds” gets the work of five seconds
 * done, on a quiet machine and on a loaded one, and a verdict does not depend on who else is at work.
 */

const BEAT_MS = 10
const LONGEST_BEAT_MS = 20

interface Waiter {
  readonly until: number
  readonly wake: () => void
}

const waiters = new Set<Waiter>()
let lived = 0
let lastBeat = performance.now()

const heart = setInterval(beat, BEAT_MS).unref()

function beat(): void {
  const now = performance.now()
  lived += Math.min(now - lastBeat, LONGEST_BEAT_MS)
  lastBeat = now
  for (const waiter of waiters) if (lived >= waiter.until) end(waiter)
}

function end(waiter: Waiter): void {
  waiters.delete(waiter)
  if (waiters.size === 0) heart.unref()
  waiter.wake()
}

/** Milliseconds lived so far. */
export function livedMs(): number {
  return lived
}

/** What `promise` gives, or undefined when that takes longer than so many lived milliseconds. */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  let waiter: Waiter | undefined
  const late = new Promise<undefined>((resolve) => {
    waiter = { until: lived + ms, wake: () => resolve(undefined) }
    waiters.add(waiter)
    heart.ref()
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    if (waiter !== undefined && waiters.has(waiter)) end(waiter)
  }
}
