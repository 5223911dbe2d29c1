import assert from 'node:assert/strict'
import type { Case } from '../case.js'
import { eventually, within } from '../wait.js'

/** Looking at lines, and breaking a stuck holder. */
export const look: readonly Case[] = [
  {
    name: 'view shows who holds and who waits, in order',
    requires: { order: 'fifo' },
    run: async ({ connect, name }) => {
      const [a, b] = [await connect({ owner: 'alice' }), await connect({ owner: 'bob' })]
      const held = await a.lock(name()).acquire({ note: 'nightly “import” – Ω' })
      const waiting = b.lock(name()).acquire()
      await eventually('both stand', async () => (await a.view(name()))[0]?.tickets.length === 2)
      const [line] = await b.view(name())
      assert.equal(line!.kind, 'mutex')
      assert.equal(line!.name, name())
      assert.deepEqual(
        line!.tickets.map(({ owner, state, pid }) => ({ owner, state, pid })),
        [
          { owner: 'alice', state: 'held', pid: process.pid },
          { owner: 'bob', state: 'waiting', pid: process.pid },
        ],
      )
      assert.equal(line!.tickets[0]!.note, 'nightly “import” – Ω')
      assert.equal(line!.tickets[0]!.fence, held.fence)
      assert.equal(JSON.parse(JSON.stringify(line)).tickets[0].fence, String(held.fence))
      const names: string[] = []
      for await (const one of a.lines(name())) names.push(one.name)
      assert.deepEqual(names, [name()])
      await held.release()
      await (await waiting).release()
      assert.deepEqual(await a.view(name()), [])
    },
  },
  {
    name: 'lines lists every line of a prefix once',
    run: async ({ connect, name }) => {
      const locks = await connect()
      const names = ['a/1', 'a/2', 'a%2', 'a_2', 'b'].map((label) => name(label))
      const leases = await Promise.all(names.map((one) => locks.lock(one).acquire()))
      const list = async (prefix: string) => {
        const found: string[] = []
        for await (const line of locks.lines(prefix)) found.push(line.name)
        return found.sort()
      }
      assert.deepEqual(await list(name('a')), names.slice(0, 4).sort())
      assert.deepEqual(await list(name('a%')), [name('a%2')], 'a percent sign is a percent sign')
      assert.deepEqual(await list(name('a_')), [name('a_2')])
      for (const lease of leases) await lease.release()
    },
  },
  {
    name: 'evict breaks a stuck holder: its signal aborts and the next is served',
    run: async ({ connect, name, ttlMs, stand }) => {
      const [a, b, operator] = [await connect(), await connect(), await connect()]
      const stuck = await a.lock(name()).acquire({ ttl: ttlMs })
      const aborted = new Promise((resolve) => stuck.signal.addEventListener('abort', resolve))
      const waiting = b.lock(name()).acquire()
      await stand(operator, name(), 2)
      const [line] = await operator.view(name())
      assert.equal(await operator.evict(line!.tickets[0]!), true)
      assert.equal(await operator.evict(line!.tickets[0]!), false, 'it is gone already')
      const next = await within('the next is served', waiting)
      await within('the evicted holder learns it', aborted)
      assert.equal(stuck.state, 'lost')
      assert.equal(await stuck.release(), false)
      assert.equal(next.state, 'held')
      await next.release()
    },
  },
  {
    name: 'evict ends what minHold keeps of a released hold, and says so',
    requires: { minHold: 'store' },
    run: async ({ connect, name, ttlMs }) => {
      const [a, operator] = [await connect(), await connect()]
      const job = await a.lock(name()).acquire({ ttl: ttlMs, minHold: 20_000 })
      assert.equal(await job.release(), true)
      assert.equal(await operator.lock(name()).tryAcquire(), undefined, 'kept')
      const [line] = await operator.view(name())
      assert.equal(await operator.evict(line!.tickets[0]!), true)
      assert.equal(await operator.evict(line!.tickets[0]!), false, 'it is gone already')
      const next = await within('freed at once', operator.lock(name()).acquire())
      await next.release()
    },
  },
]
