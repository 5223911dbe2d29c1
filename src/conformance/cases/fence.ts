import assert from 'node:assert/strict'
import type { Case } from '../case.js'

/** The order is the fence: it grows from holder to holder, whoever they are. */
export const fence: readonly Case[] = [
  {
    name: 'fences grow strictly over 1,000 holds, by turns of two clients',
    requires: { fence: 'clock' },
    run: async ({ connect, name }) => {
      const clients = [await connect(), await connect()]
      let last = 0n
      for (let i = 0; i < 1_000; i += 1) {
        const lease = await clients[i % 2]!.lock(name()).acquire()
        assert.ok(lease.fence > last, `${lease.fence} after ${last}`)
        last = lease.fence
        await lease.release()
      }
    },
  },
  {
    name: 'a fence outlives its line: a line that was empty goes on where it was',
    requires: { fence: 'clock' },
    run: async ({ connect, name }) => {
      const first = await connect()
      const before = await first.lock(name()).use((lease) => lease.fence)
      await first.close()
      const second = await connect()
      const after = await second.lock(name()).use((lease) => lease.fence)
      assert.ok(after > before, `${after} after ${before}`)
    },
  },
]
