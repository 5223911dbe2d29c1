import assert from 'node:assert/strict'
import { LockTimeoutError } from '../../core/errors.js'
import type { Case } from '../case.js'
import { eventually, within } from '../wait.js'

/** Taking, waiting, giving up: what most people use a lock for. */
export const mutex: readonly Case[] = [
  {
    name: 'two clients never hold one lock at once',
    run: async ({ connect, name }) => {
      const clients = await Promise.all([connect(), connect(), connect()])
      let inside = 0
      let most = 0
      let runs = 0
      await Promise.all(
        clients.map(async (locks) => {
          for (let i = 0; i < 10; i += 1) {
            await locks.lock(name()).use(async () => {
              inside += 1
              most = Math.max(most, inside)
              await new Promise((resolve) => setImmediate(resolve))
              inside -= 1
              runs += 1
            })
          }
        }),
      )
      assert.equal(most, 1)
      assert.equal(runs, 30)
    },
  },
  {
    name: 'tryAcquire says no with undefined while another holds, and yes when it is free',
    run: async ({ connect, name }) => {
      const [a, b] = [await connect(), await connect()]
      const held = await a.lock(name()).tryAcquire()
      assert.ok(held)
      assert.equal(await b.lock(name()).tryAcquire(), undefined)
      assert.equal(await held.release(), true)
      const next = await b.lock(name()).tryAcquire()
      assert.ok(next)
      assert.equal(await held.release(), true, 'a second release answers what the first did')
      assert.equal(next.state, 'held', 'and takes nothing from the next holder')
      await next.release()
    },
  },
  {
    name: 'a release wakes the first waiter, long before anything times out',
    run: async ({ connect, name, stand }) => {
      const [a, b] = [await connect(), await connect()]
      const held = await a.lock(name()).acquire()
      const waiting = b.lock(name()).acquire()
      await stand(a, name(), 2)
      await held.release()
      await (await within('the waiter is served', waiting)).release()
    },
  },
  {
    name: 'a wait that is over throws LockTimeoutError and leaves the line',
    run: async ({ connect, name }) => {
      const [a, b] = [await connect(), await connect()]
      const held = await a.lock(name()).acquire()
      await assert.rejects(b.lock(name()).acquire({ wait: '1s' }), LockTimeoutError)
      await assert.rejects(b.lock(name()).acquire({ wait: 0 }), LockTimeoutError)
      await eventually('only the holder stands', async () => (await a.view(name()))[0]?.tickets.length === 1)
      await held.release()
    },
  },
  {
    name: 'an abort leaves the line at once with its own reason, before, during and after the wait',
    run: async ({ connect, name, stand }) => {
      const [a, b] = [await connect(), await connect()]
      const held = await a.lock(name()).acquire()
      const reason = new Error('enough')
      await assert.rejects(b.lock(name()).acquire({ signal: AbortSignal.abort(reason) }), reason)
      const justSent = new AbortController()
      const sent = b.lock(name()).acquire({ signal: justSent.signal })
      justSent.abort(reason)
      await assert.rejects(sent, reason)
      const inLine = new AbortController()
      const waiting = b.lock(name()).acquire({ signal: inLine.signal })
      await stand(a, name(), 2)
      inLine.abort(reason)
      await assert.rejects(waiting, reason)
      await eventually('only the holder stands', async () => (await a.view(name()))[0]?.tickets.length === 1)
      await held.release()
      const late = new AbortController()
      const lease = await b.lock(name()).acquire({ signal: late.signal })
      late.abort(reason)
      assert.equal(lease.state, 'held', 'an abort after the grant changes nothing')
      assert.equal(await lease.release(), true)
    },
  },
  {
    name: 'an abort in the middle of the line holds up nobody behind it',
    requires: { order: 'fifo' },
    run: async ({ connect, name }) => {
      const locks = await connect()
      const held = await locks.lock(name()).acquire()
      const middle = new AbortController()
      const first = locks.lock(name()).acquire()
      const second = locks.lock(name()).acquire({ signal: middle.signal })
      const third = locks.lock(name()).acquire()
      await eventually('all stand', async () => (await locks.view(name()))[0]?.tickets.length === 4)
      middle.abort(new Error('enough'))
      await assert.rejects(second)
      await held.release()
      await (await within('the first', first)).release()
      await (await within('the third', third)).release()
    },
  },
  {
    name: 'waiters of several clients are served first come, first served',
    requires: { order: 'fifo' },
    run: async ({ connect, name }) => {
      const clients = [await connect(), await connect(), await connect()]
      const held = await clients[0]!.lock(name()).acquire()
      const served: number[] = []
      const waiting: Promise<void>[] = []
      for (let i = 0; i < 12; i += 1) {
        const locks = clients[i % clients.length]!
        waiting.push(locks.lock(name()).use(() => void served.push(i)))
        await eventually('it stands in line', async () => (await clients[0]!.view(name()))[0]?.tickets.length === i + 2)
      }
      await held.release()
      await within('all are served', Promise.all(waiting))
      assert.deepEqual(served, [...served.keys()])
    },
  },
  {
    name: '500 waiters are served in order',
    requires: { order: 'fifo' },
    run: async ({ connect, name }) => {
      const locks = await connect()
      const held = await locks.lock(name()).acquire()
      const fences: bigint[] = []
      const waiting = Array.from({ length: 500 }, () =>
        locks.lock(name()).use((lease) => void fences.push(lease.fence)),
      )
      await eventually('all stand', async () => (await locks.view(name()))[0]?.tickets.length === 501)
      await held.release()
      await within('all 500 are served', Promise.all(waiting), 50_000)
      assert.equal(fences.length, 500)
      assert.ok(
        fences.every((fence, i) => i === 0 || fence > fences[i - 1]!),
        'in the order of their tickets',
      )
    },
  },
]
