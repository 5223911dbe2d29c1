import assert from 'node:assert/strict'
import { LockLostError } from '../../core/errors.js'
import type { Case } from '../case.js'
import { eventually, within } from '../wait.js'

/** A lease ends unless it is kept alive, and what it promised ends with it. */
export const lease: readonly Case[] = [
  {
    name: 'a hold that is not renewed ends by itself, and its signal aborts',
    requires: { lease: 'ticket' },
    run: async ({ connect, name, ttlMs }) => {
      const [a, b] = [await connect(), await connect()]
      const held = await a.lock(name()).acquire({ ttl: ttlMs, renew: false })
      const aborted = new Promise((resolve) => held.signal.addEventListener('abort', resolve))
      const next = await within('the next holder', b.lock(name()).acquire({ ttl: ttlMs }))
      await within('the signal', aborted)
      assert.equal(held.state, 'lost')
      assert.throws(() => held.assertHeld(), LockLostError)
      assert.ok(held.signal.reason instanceof LockLostError)
      assert.equal(await held.release(), false, 'a late release says so')
      assert.equal(next.state, 'held', 'and does not free the new holder')
      assert.equal(await b.lock(name()).tryAcquire(), undefined)
      assert.ok(next.fence > held.fence)
      await next.release()
    },
  },
  {
    name: 'a hold that is renewed outlasts its ttl many times',
    run: async ({ connect, name, ttlMs }) => {
      const [a, b] = [await connect(), await connect()]
      const held = await a.lock(name()).acquire({ ttl: ttlMs })
      await assert.rejects(b.lock(name()).acquire({ wait: ttlMs * 2.5 }), { code: 'LOCK_TIMEOUT' })
      assert.equal(held.state, 'held')
      held.assertHeld()
      assert.equal(await held.release(), true)
    },
  },
  {
    name: 'a waiting ticket outlasts its lease while its client lives',
    requires: { order: 'fifo' },
    run: async ({ connect, name, ttlMs }) => {
      const [a, b] = [await connect(), await connect()]
      const held = await a.lock(name()).acquire({ ttl: ttlMs })
      const waiting = b.lock(name()).acquire({ ttl: ttlMs })
      await eventually('it waits', async () => (await a.view(name()))[0]?.tickets.length === 2)
      const place = (await a.view(name()))[0]!.tickets[1]!.fence
      await new Promise((resolve) => setTimeout(resolve, ttlMs * 2.5))
      assert.equal((await a.view(name()))[0]!.tickets[1]!.fence, place, 'it still has its place')
      await held.release()
      await (await within('it is served', waiting)).release()
    },
  },
  {
    name: 'a dead waiter drops out of line and holds up nobody',
    requires: { order: 'fifo', lease: 'ticket' },
    run: async ({ connect, port, name, ttlMs }) => {
      const dead = await port()
      const locks = await connect()
      const line = { kind: 'mutex', name: name() } as const
      const held = await locks.lock(name()).acquire({ ttl: ttlMs })
      const request = { ...dead.join(line, 'never-renewed'), waitTtlMs: ttlMs }
      await dead.backend.join([request])
      const waiting = locks.lock(name()).acquire({ ttl: ttlMs })
      await eventually('both stand', async () => (await locks.view(name()))[0]?.tickets.length === 3)
      await held.release()
      await (await within('the live waiter is served', waiting)).release()
    },
  },
  {
    name: 'a lapsed ticket is gone for its renewal and its leave',
    requires: { lease: 'ticket' },
    run: async ({ port, name, ttlMs, connect }) => {
      const { backend, join, renew, leave } = await port()
      const line = { kind: 'mutex', name: name() } as const
      await backend.join([{ ...join(line, 'a'), ttlMs }])
      await (await within('the next holder', (await connect()).lock(name()).acquire())).release()
      assert.equal((await backend.renew([renew(line, 'a')]))[0]!.state, 'gone')
      assert.deepEqual(await backend.leave([leave(line, 'a')]), [false])
    },
  },
  {
    name: 'maxHold ends the renewals of a holder that hangs',
    requires: { lease: 'ticket' },
    run: async ({ connect, name, ttlMs }) => {
      const [a, b] = [await connect(), await connect()]
      const hung = await a.lock(name()).acquire({ ttl: ttlMs, maxHold: ttlMs })
      const next = await within('the next holder', b.lock(name()).acquire())
      assert.equal(hung.state, 'lost')
      await next.release()
    },
  },
  {
    name: 'with grace, the holder stops believing before the store lets go',
    requires: { lease: 'ticket' },
    run: async ({ connect, name, ttlMs }) => {
      const [a, b] = [await connect(), await connect()]
      const held = await a.lock(name()).acquire({ ttl: ttlMs, grace: ttlMs, renew: false })
      const aborted = new Promise((resolve) => held.signal.addEventListener('abort', resolve))
      await within('the signal', aborted)
      assert.equal(await b.lock(name()).tryAcquire(), undefined, 'lost to the holder, not yet free')
      await (await within('freed after the grace', b.lock(name()).acquire())).release()
    },
  },
  {
    name: 'minHold keeps others out after an early release, and the ticket cannot be renewed any more',
    requires: { minHold: 'store' },
    run: async ({ connect, port, name, ttlMs }) => {
      const { backend, join, renew, leave } = await port()
      const line = { kind: 'mutex', name: name() } as const
      await backend.join([join(line, 'a')])
      assert.deepEqual(await backend.leave([leave(line, 'a', { keepMs: ttlMs })]), [true])
      assert.equal((await backend.join([join(line, 'b', { wait: false })]))[0]!.state, 'refused')
      assert.equal((await backend.renew([renew(line, 'a')]))[0]!.state, 'gone')
      assert.deepEqual(await backend.leave([leave(line, 'a')]), [false], 'it has left already')
      const next = await within('freed after minHold', (await connect()).lock(name()).acquire())
      await next.release()
    },
  },
  {
    name: 'minHold: a copy of the join that arrives when it is over makes no zombie',
    requires: { minHold: 'store' },
    run: async ({ connect, port, name, ttlMs }) => {
      const { backend, join, leave } = await port()
      const line = { kind: 'mutex', name: name() } as const
      const copy = join(line, 'a')
      await backend.join([copy])
      assert.deepEqual(await backend.leave([leave(line, 'a', { keepMs: ttlMs, tombstoneMs: 60_000 })]), [true])
      const next = await within('freed after minHold', (await connect()).lock(name()).acquire())
      await next.release()
      assert.equal((await backend.join([copy]))[0]!.state, 'gone')
      assert.deepEqual(await backend.view(line.name), [])
    },
  },
  {
    name: 'minHold: a job of several replicas runs once',
    run: async ({ connect, name, ttlMs }) => {
      const [a, b] = [await connect(), await connect()]
      const first = await a.lock(name()).acquire({ ttl: ttlMs, minHold: ttlMs })
      assert.equal(await first.release(), true)
      assert.equal(first.state, 'released')
      assert.equal(await b.lock(name()).tryAcquire(), undefined)
      await (await within('freed after minHold', b.lock(name()).acquire())).release()
    },
  },
  {
    name: 'renew(ttl) sets a longer lease at once',
    requires: { lease: 'ticket' },
    run: async ({ connect, name, ttlMs, guarantees }) => {
      const locks = await connect()
      const held = await locks.lock(name()).acquire({ ttl: ttlMs, renew: false })
      await held.renew(Math.min(ttlMs * 60, guarantees.maxTtlMs ?? Number.POSITIVE_INFINITY))
      assert.ok(held.remainingMs > ttlMs * 2)
      await held.release()
      await assert.rejects(held.renew(), LockLostError)
    },
  },
]
