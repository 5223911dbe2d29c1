import { channel } from 'node:diagnostics_channel'
import { expect, test } from 'vitest'
import { memory } from '../../src/backends/memory/index.js'
import type { LockEvent } from '../../src/core/events.js'
import { Holdfast } from '../../src/core/holdfast.js'

test('the diagnostics channels tell of an acquire, a wait, a time-out, a loss and a release', async () => {
  const told: string[] = []
  const names = ['acquire', 'wait', 'timeout', 'lost', 'release'] as const
  const listeners = names.map((name) => ({
    name,
    fn: (message: unknown) => void told.push(`${name} ${(message as LockEvent).name}`),
  }))
  for (const { name, fn } of listeners) channel(`holdfast:${name}`).subscribe(fn)
  try {
    const locks = new Holdfast(memory())
    const lease = await locks.lock('a').acquire()
    await expect(locks.lock('a').acquire({ wait: '20ms' })).rejects.toThrow('holdfast show a')
    const [line] = await locks.view('a')
    const lost = new Promise((resolve) => lease.signal.addEventListener('abort', resolve))
    await locks.evict(line!.tickets[0]!)
    await lost
    await locks.lock('b').use(() => {})
    await locks.close()
  } finally {
    for (const { name, fn } of listeners) channel(`holdfast:${name}`).unsubscribe(fn)
  }
  expect(told).toEqual(['acquire a', 'wait a', 'timeout a', 'lost a', 'acquire b', 'release b'])
})
