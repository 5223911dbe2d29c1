import assert from 'node:assert/strict'
import { LockLostError, UnsupportedError } from '../../core/errors.js'
import type { Case } from '../case.js'
import { eventually, within } from '../wait.js'

/** Handing a hold to another, and taking over one's own. */
export const handover: readonly Case[] = [
  {
    name: 'a hold is handed over whole: same fence, never free in between, one adopter',
    requires: { handover: true },
    run: async ({ connect, name, ttlMs }) => {
      const [a, b, c] = [await connect(), await connect(), await connect()]
      const lease = await a.lock(name()).acquire({ ttl: ttlMs })
      const text = await lease.serialize()
      assert.equal(lease.state, 'released')
      assert.equal(await c.lock(name()).tryAcquire(), undefined, 'let go of, not released')
      const adopted = await b.adopt(text)
      assert.equal(adopted.fence, lease.fence)
      await assert.rejects(c.adopt(text), LockLostError)
      assert.equal(await lease.release(), false, 'the old handle does nothing')
      assert.equal(await c.lock(name()).tryAcquire(), undefined)
      await assert.rejects(c.lock(name()).acquire({ wait: ttlMs * 1.5 }), { code: 'LOCK_TIMEOUT' })
      assert.equal(adopted.state, 'held', 'the adopter renews it')
      assert.equal(await adopted.release(), true)
      await (await c.lock(name()).acquire()).release()
    },
  },
  {
    name: 'a store that cannot hand over says so',
    run: async ({ connect, name, guarantees }) => {
      if (guarantees.handover) return
      const locks = await connect()
      const lease = await locks.lock(name()).acquire()
      await assert.rejects(lease.serialize(), UnsupportedError)
      assert.equal(await lease.release(), true)
    },
  },
  {
    name: 'takeover drops the same owner’s ticket of another client, and only that',
    requires: { lease: 'ticket' },
    run: async ({ connect, name, ttlMs }) => {
      const [crashed, restarted, other] = [await connect(), await connect(), await connect()]
      const old = await crashed.lock(name()).acquire({ owner: 'worker-1', ttl: ttlMs })
      assert.equal(await other.lock(name()).tryAcquire({ owner: 'worker-2', takeover: true }), undefined)
      const next = await within('at once', restarted.lock(name()).acquire({ owner: 'worker-1', takeover: true }))
      assert.ok(next.fence > old.fence)
      await eventually('the earlier holder learns it', () => old.state === 'lost')
      assert.equal(await old.release(), false)
      assert.equal(next.state, 'held')
      await next.release()
    },
  },
  {
    name: 'a copy of a takeover that arrives after its leave takes nothing over',
    requires: { handover: true },
    run: async ({ port, name }) => {
      const [first, second] = [await port(), await port()]
      const line = { kind: 'mutex', name: name() } as const
      const took = first.join(line, 'a', { takeover: true })
      const copy = { ...took, holder: { ...took.holder, owner: 'worker' } }
      await first.backend.join([copy])
      assert.deepEqual(await first.backend.leave([first.leave(line, 'a', { tombstoneMs: 60_000 })]), [true])
      const next = second.join(line, 'b')
      await second.backend.join([{ ...next, holder: { ...next.holder, owner: 'worker' } }])
      assert.equal((await first.backend.join([copy]))[0]!.state, 'gone')
      assert.equal((await second.backend.renew([second.renew(line, 'b')]))[0]!.state, 'granted')
      assert.deepEqual(await second.backend.leave([second.leave(line, 'b')]), [true])
    },
  },
  {
    name: 'a takeover does not end what minHold keeps of a released hold',
    requires: { minHold: 'store' },
    run: async ({ connect, name, ttlMs }) => {
      const [a, b] = [await connect(), await connect()]
      const job = await a.lock(name()).acquire({ owner: 'job', ttl: ttlMs, minHold: 20_000 })
      assert.equal(await job.release(), true)
      assert.equal(await b.lock(name()).tryAcquire({ owner: 'job', takeover: true }), undefined)
      const [line] = await b.view(name())
      assert.equal(await b.evict(line!.tickets[0]!), true, 'it was still kept')
    },
  },
]
