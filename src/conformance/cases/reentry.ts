import assert from 'node:assert/strict'
import { DeadlockError, LockLostError } from '../../core/errors.js'
import type { Case } from '../case.js'

/** Taking again what one holds. */
export const reentry: readonly Case[] = [
  {
    name: 'a reentrant lock may be taken again inside its own use, and is free after the last',
    run: async ({ connect, name }) => {
      const [a, b] = [await connect(), await connect()]
      const lock = a.lock(name(), { reentrant: true })
      await lock.use(async (outer) => {
        await lock.use((inner) => assert.equal(inner.fence, outer.fence))
        assert.equal(outer.state, 'held', 'the inner release released nothing')
        assert.equal(await b.lock(name()).tryAcquire(), undefined)
      })
      await (await b.lock(name()).acquire()).release()
    },
  },
  {
    name: 'a lock that is not reentrant throws DeadlockError instead of waiting for itself',
    run: async ({ connect, name }) => {
      const locks = await connect()
      await locks.lock(name()).use(async () => {
        await assert.rejects(locks.lock(name()).acquire(), DeadlockError)
        assert.equal(await locks.lock(name()).tryAcquire(), undefined)
      })
    },
  },
  {
    name: 'a read inside a read counts, and a read is not turned into a write',
    requires: { kinds: ['rw'] },
    run: async ({ connect, name }) => {
      const locks = await connect()
      const plain = locks.readWriteLock(name())
      await plain.read.use(async () => await assert.rejects(plain.read.acquire(), DeadlockError))
      const reentrant = locks.readWriteLock(name(), { reentrant: true })
      await reentrant.read.use(async () => {
        await reentrant.read.use(() => {})
        await assert.rejects(reentrant.write.acquire(), DeadlockError)
      })
      await reentrant.write.use(async () => await reentrant.read.use(() => {}))
    },
  },
  {
    name: 'within re-enters without async context',
    run: async ({ connect, name }) => {
      const [a, b] = [await connect(), await connect()]
      const outer = await a.lock(name()).acquire()
      const inner = await a.lock(name()).acquire({ within: outer })
      assert.equal(await outer.release(), true)
      assert.equal(await b.lock(name()).tryAcquire(), undefined, 'the inner handle still holds')
      assert.equal(await inner.release(), true)
      await assert.rejects(a.lock(name()).acquire({ within: outer }), LockLostError)
      await (await b.lock(name()).acquire()).release()
    },
  },
]
