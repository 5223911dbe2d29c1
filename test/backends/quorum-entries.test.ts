import { expect, test } from 'vitest'
import { Entries } from '../../src/backends/quorum/entries.js'
import type { JoinRequest } from '../../src/core/backend.js'

const MINUTE_MS = 60_000

function request(id: string): JoinRequest {
  return {
    line: { kind: 'mutex', name: id },
    id,
    weight: 1,
    capacity: 1,
    wait: false,
    ttlMs: MINUTE_MS,
    waitTtlMs: 5_000,
    holder: { owner: 'o', client: 'c', host: 'h', pid: 1 },
    takeover: false,
  }
}

test('a client of a quorum forgets tickets that lapsed, or that nobody asks about, and no others', () => {
  const entries = new Entries()
  const now = performance.now()
  for (let i = 0; i < 300; i += 1) {
    const failed = entries.enter(request(`failed-${i}`))
    failed.askedAt = now
    failed.left = true
    const lapsed = entries.enter(request(`lapsed-${i}`))
    lapsed.askedAt = now
    lapsed.until = now + MINUTE_MS
  }
  const held = entries.enter(request('held'))
  held.until = now + 4 * MINUTE_MS
  const waits = entries.enter(request('waits'))
  const sizeAfter = (minutes: number): number => {
    for (const entry of entries.lapsed(now + minutes * MINUTE_MS)) entries.forget(entry)
    return entries.size
  }
  waits.askedAt = now
  expect(sizeAfter(0)).toBe(602)
  // The leases of those that lapsed ended a minute later.
  waits.askedAt = now + 1.4 * MINUTE_MS
  expect(sizeAfter(1.5)).toBe(302)
  waits.askedAt = now + 2.4 * MINUTE_MS
  expect(sizeAfter(2.6)).toBe(2)
  // Asked about no more.
  expect(sizeAfter(3.7)).toBe(1)
  expect(entries.get('held')).toBe(held)
})
