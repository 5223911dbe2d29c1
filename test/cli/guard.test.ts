/** The guard alone, under a clock that the test moves. */
import { describe, expect, it } from 'vitest'
import { Guard } from '../../src/cli/guard.js'
import type { FromGuardian } from '../../src/cli/protocol.js'

class World {
  nowMs = 1_000
  sleptMs = 0
  sent: string[] = []
  reports: FromGuardian[] = []
  groupAlive = true
  #timers: { at: number; fn: () => void }[] = []

  guard(deadlineMs: number, killAfterMs: number): Guard {
    const clock = {
      now: () => this.nowMs,
      uptime: () => this.nowMs + this.sleptMs,
      after: (ms: number, fn: () => void) => {
        const timer = { at: this.nowMs + ms, fn }
        this.#timers.push(timer)
        return () => void (this.#timers = this.#timers.filter((one) => one !== timer))
      },
    }
    const group = {
      signal: (signal: NodeJS.Signals) => {
        this.sent.push(`${signal}@${this.nowMs}`)
        return this.groupAlive
      },
      alive: () => this.groupAlive,
    }
    return new Guard(group, { deadlineMs, killAfterMs }, clock, (message) => this.reports.push(message))
  }

  until(ms: number): void {
    for (;;) {
      const timer = this.#timers.sort((a, b) => a.at - b.at)[0]
      if (timer === undefined || timer.at > ms) break
      this.#timers.shift()
      this.nowMs = Math.max(this.nowMs, timer.at)
      timer.fn()
    }
    this.nowMs = ms
  }

  get timers(): number {
    return this.#timers.length
  }
}

describe('the guard', () => {
  it('sends SIGTERM at the deadline − kill-after and SIGKILL at the deadline', () => {
    const world = new World()
    const guard = world.guard(4_000, 1_000)
    world.until(3_500)
    expect(world.sent).toEqual(['SIGTERM@3000', 'SIGCONT@3000'])
    world.until(4_000)
    expect(world.sent[2]).toBe('SIGKILL@4000')
    world.groupAlive = false
    guard.exited(null, 'SIGKILL')
    expect(world.reports).toEqual([
      { type: 'ended', code: null, signal: 'SIGKILL', killed: true, survivors: false, stopped: 'deadline' },
    ])
    expect(world.timers).toBe(0)
  })

  it('does nothing while it is refreshed, and reports the end of the command', () => {
    const world = new World()
    const guard = world.guard(4_000, 1_000)
    for (let at = 2_000; at < 60_000; at += 1_000) {
      world.until(at)
      guard.refresh(at + 3_000, false)
    }
    guard.exited(3, null)
    expect(world.sent).toEqual([])
    expect(world.reports).toEqual([{ type: 'ended', code: 3, signal: null, killed: false, survivors: false }])
    expect(world.timers).toBe(0)
  })

  it('does not go back on a stop because of a late refresh', () => {
    const world = new World()
    const guard = world.guard(4_000, 1_000)
    world.until(3_100)
    guard.refresh(9_000, true)
    world.until(4_100)
    expect(world.sent).toContain('SIGKILL@4000')
  })

  it('stops politely when orphaned, but never later than the deadline', () => {
    const world = new World()
    const guard = world.guard(10_000, 1_000)
    world.until(2_000)
    guard.stop('orphaned')
    world.until(3_000)
    expect(world.sent).toEqual(['SIGTERM@2000', 'SIGCONT@2000', 'SIGKILL@3000'])

    const late = new World()
    const guarded = late.guard(10_000, 5_000)
    late.until(4_999)
    guarded.refresh(6_000, false)
    expect(late.sent[0]).toBe('SIGTERM@4999')
    late.until(6_000)
    expect(late.sent.at(-1)).toBe('SIGKILL@6000')
  })

  it('kills at once when the lock is gone', () => {
    const world = new World()
    const guard = world.guard(10_000, 1_000)
    world.until(2_000)
    guard.stop('gone')
    expect(world.sent).toEqual(['SIGKILL@2000'])
  })

  it('freezes the group after a sleep of the machine until the lock is confirmed', () => {
    const world = new World()
    const guard = world.guard(30_000, 1_000)
    world.until(5_000)
    world.sleptMs = 3_600_000
    world.until(6_000)
    expect(world.sent).toEqual(['SIGSTOP@5500'])
    expect(world.reports).toEqual([{ type: 'doubt', sleptMs: 3_600_000 }])
    guard.refresh(30_000, false)
    guard.signal('SIGCONT')
    expect(world.sent).toHaveLength(1)
    guard.refresh(36_000, true)
    expect(world.sent).toEqual(['SIGSTOP@5500', 'SIGCONT@6000'])
  })

  it('kills a frozen group without letting it take another step', () => {
    const world = new World()
    world.guard(9_000, 1_000)
    world.until(5_000)
    world.sleptMs = 60_000
    world.until(8_000)
    expect(world.sent).toEqual(['SIGSTOP@5500', 'SIGKILL@8000'])
  })

  it('tells of what even SIGKILL did not end', () => {
    const world = new World()
    world.guard(2_000, 0)
    world.until(10_000)
    expect(world.reports).toMatchObject([{ type: 'ended', killed: true, survivors: true }])
  })
})
