import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AlarmClock, type Sleeper } from '../../src/core/alarm.js'
import type { Clock } from '../../src/core/clock.js'

/** A clock whose one timer is fired by hand. */
function handClock(): { clock: Clock; ring: (now: number) => void } {
  let now = 0
  const timers = new Set<{ at: number; fn: () => void }>()
  const clock: Clock = {
    now: () => now,
    wall: () => now,
    uptime: () => now,
    random: () => 0,
    after: (ms, fn) => {
      const timer = { at: now + ms, fn }
      timers.add(timer)
      return { cancel: () => void timers.delete(timer) }
    },
  }
  const ring = (to: number): void => {
    now = to
    for (const timer of [...timers]) {
      if (timer.at > now) continue
      timers.delete(timer)
      timer.fn()
    }
  }
  return { clock, ring }
}

test('sleepers wake in order of their time, whatever was set, moved and cleared before', () => {
  const act = fc.record({ who: fc.nat(9), at: fc.nat(100), clear: fc.boolean() })
  fc.assert(
    fc.property(fc.array(act), (acts) => {
      const { clock, ring } = handClock()
      const alarms = new AlarmClock(clock)
      const woken: number[] = []
      const sleepers: Sleeper[] = Array.from({ length: 10 }, (_, i) => ({
        wakeAt: 0,
        place: -1,
        wake: () => void woken.push(i),
      }))
      const wanted = new Map<number, number>()
      for (const { who, at, clear } of acts) {
        if (clear) alarms.clear(sleepers[who]!)
        else alarms.set(sleepers[who]!, at)
        if (clear) wanted.delete(who)
        else wanted.set(who, at)
      }
      expect(alarms.size).toBe(wanted.size)
      ring(100)
      expect(alarms.size).toBe(0)
      expect(new Set(woken)).toEqual(new Set(wanted.keys()))
      const times = woken.map((who) => wanted.get(who)!)
      expect(times).toEqual(times.toSorted((a, b) => a - b))
    }),
  )
})
