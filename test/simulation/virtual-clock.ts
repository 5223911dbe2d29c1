import type { Clock, Timer } from '../../src/core/clock.js'
import type { Random } from './random.js'

interface Alarm {
  readonly at: number
  readonly turn: number
  readonly fn: () => void
  readonly actor: Actor | undefined
}

/** Whose turn a timer is: a paused actor's come late, a crashed actor's never. */
export interface Actor {
  pausedUntil: number
  crashed: boolean
}

/** More than any schedule needs: beyond it somebody runs in circles. */
const MOST_STEPS = 50_000

/** A world in which time passes only when everyone has nothing left to do. */
export class VirtualTime {
  now = 1_000
  readonly #alarms = new Set<Alarm>()
  #turn = 0

  get pending(): number {
    return this.#alarms.size
  }

  after(ms: number, fn: () => void, actor?: Actor): Timer {
    // Never early by a rounding error: who wakes too early goes back to sleep for nothing, for ever.
    const at = Math.ceil((this.now + Math.max(0, ms)) * 1_000 + 0.001) / 1_000
    const alarm: Alarm = { at, turn: this.#turn++, fn, actor }
    this.#alarms.add(alarm)
    return { cancel: () => void this.#alarms.delete(alarm) }
  }

  /** Lets time pass until nothing is due any more, until then, or until it is enough; calls back after each step. */
  async run(until: number, step: () => void, enough: () => boolean = () => false): Promise<void> {
    await settled()
    let steps = 0
    for (let next = this.#next(); next !== undefined && next.at <= until; next = this.#next()) {
      this.#alarms.delete(next)
      this.now = Math.max(this.now, next.at)
      if (next.actor?.crashed) continue
      if (next.actor !== undefined && next.actor.pausedUntil > this.now) {
        this.after(next.actor.pausedUntil - this.now, next.fn, next.actor)
        continue
      }
      next.fn()
      await settled()
      step()
      steps += 1
      if (enough()) return
      if (steps > MOST_STEPS)
        throw new Error(`still busy after ${MOST_STEPS} steps, at ${this.now} with ${this.pending} timers`)
    }
  }

  #next(): Alarm | undefined {
    let first: Alarm | undefined
    for (const alarm of this.#alarms) {
      if (first === undefined || alarm.at < first.at || (alarm.at === first.at && alarm.turn < first.turn))
        first = alarm
    }
    return first
  }
}

/** All promises that can settle without time passing have settled. */
function settled(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve))
}

/** One actor's clock in that world. */
export function clockOf(time: VirtualTime, actor: Actor, random: Random): Clock {
  return {
    now: () => time.now,
    wall: () => time.now,
    uptime: () => time.now,
    random: () => random.next(),
    after: (ms, fn) => time.after(ms, fn, actor),
  }
}
