import { uptime } from 'node:os'
// Imported: the global one is looked up by a getter each time.
import { performance } from 'node:perf_hooks'

/** The client's clocks. Decisions use `now`; the other two may only shorten belief (see lease.ts). */
export interface Clock {
  /** Monotonic milliseconds: never steps, may stand still while the machine sleeps. */
  now(): number
  /** The wall clock in milliseconds: steps, but goes on while the machine sleeps. */
  wall(): number
  /** Milliseconds since the machine was started, sleep included where the platform counts it. */
  uptime(): number
  /** Runs `fn` after `ms`. A timer that is not `alive` does not keep the process alive. */
  after(ms: number, fn: () => void, alive: boolean): Timer
  /** From 0 to 1, for jitter only. */
  random(): number
}

export interface Timer {
  cancel(): void
}

/** Node cannot time longer than this in one go; what wakes early looks at the clock and sleeps again. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** The machine's own clocks. */
export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  uptime: () => uptime() * 1_000,
  random: () => Math.random(),
  after(ms, fn, alive) {
    const timer = setTimeout(fn, Math.min(Math.max(0, ms), LONGEST_TIMER_MS))
    if (!alive) timer.unref()
    return { cancel: () => clearTimeout(timer) }
  },
}
