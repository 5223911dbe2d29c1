import assert from 'node:assert/strict'
import { LockTimeoutError } from '../../core/errors.js'
import type { Case } from '../case.js'
import { eventually, within } from '../wait.js'

/** `all([...])`: held in all, or standing in none. */
export const group: readonly Case[] = [
  {
    name: 'all() takes every line or stands in none',
    run: async ({ connect, name }) => {
      const [a, b] = [await connect(), await connect()]
      const names = [name('1'), name('2'), name('3')]
      const held = await a.lock(names[1]!).acquire()
      assert.equal(await b.all(names).tryAcquire(), undefined)
      for (const free of [names[0]!, names[2]!]) {
        await eventually('nobody stands there', async () => (await a.view(free)).length === 0)
      }
      await held.release()
      const together = await b.all(names).acquire()
      assert.deepEqual(together.names, names)
      assert.equal(together.leases.length, 3)
      for (const one of names) assert.equal(await a.lock(one).tryAcquire(), undefined)
      assert.equal(await together.release(), true)
      assert.equal(together.state, 'released')
    },
  },
  {
    name: 'all() waits, and gives up whole',
    run: async ({ connect, name, stand }) => {
      const [a, b] = [await connect(), await connect()]
      const names = [name('1'), name('2')]
      const held = await a.lock(names[1]!).acquire()
      await assert.rejects(b.all(names).acquire({ wait: '1s' }), LockTimeoutError)
      await eventually('the first is free again', async () => (await a.view(names[0]!)).length === 0)
      const waiting = b.all(names).acquire()
      await stand(a, names[1]!, 2)
      await held.release()
      await (await within('both', waiting)).release()
    },
  },
  {
    name: 'all() counts a line once, the stronger mode winning',
    requires: { kinds: ['rw'] },
    run: async ({ connect, name }) => {
      const [a, b] = [await connect(), await connect()]
      const document = a.readWriteLock(name('doc'))
      const together = await a.all([name('m'), document.read, document.write, name('m')]).acquire()
      assert.equal(together.leases.length, 2)
      assert.equal(await b.readWriteLock(name('doc')).read.tryAcquire(), undefined, 'it is held for writing')
      await together.release()
    },
  },
  {
    name: 'all() does not deadlock beside holders that nest in sorted order',
    run: async ({ connect, name }) => {
      const [a, b] = [await connect(), await connect()]
      const names = [name('1'), name('2')]
      let done = 0
      const nesting = async () => {
        for (let i = 0; i < 5; i += 1) {
          await a.lock(names[0]!).use(async () => await a.lock(names[1]!).use(() => void (done += 1)))
        }
      }
      const together = async () => {
        for (let i = 0; i < 5; i += 1) await b.all(names.toReversed()).use(() => void (done += 1))
      }
      // The holder of the second that then asks for a third, while all() waits: it must not stand before it in the third.
      await within('nobody waits for ever', Promise.all([nesting(), together(), nesting(), together()]), 40_000)
      assert.equal(done, 20)
    },
  },
  {
    name: 'a holder may take a later line while all() waits for the one it holds',
    run: async ({ connect, name, stand }) => {
      const [a, b] = [await connect(), await connect()]
      const first = await a.lock(name('1')).acquire()
      const waiting = b.all([name('1'), name('2')]).acquire()
      await stand(a, name('1'), 2)
      const second = await within('the later line is free', a.lock(name('2')).acquire())
      await second.release()
      await first.release()
      await (await within('then all() has both', waiting)).release()
    },
  },
  {
    name: 'a group in one call of the store is granted whole or refused whole',
    requires: { atomicGroup: true },
    run: async ({ port, name }) => {
      const { backend, join, leave } = await port()
      const line = (label: string) => ({ kind: 'mutex', name: name(label) }) as const
      const inGroup = (label: string, id: string, group: string) => join(line(label), id, { wait: false, group })
      await backend.join([join(line('b'), 'holder')])
      const refused = await backend.join([
        inGroup('a', 'a1', 'g1'),
        inGroup('b', 'b1', 'g1'),
        join(line('a'), 'other', { wait: false }),
      ])
      assert.deepEqual(
        refused.map((standing) => standing.state),
        ['refused', 'refused', 'granted'],
      )
      await backend.leave([leave(line('a'), 'other'), leave(line('b'), 'holder')])
      const granted = await backend.join([inGroup('a', 'a2', 'g2'), inGroup('b', 'b2', 'g2')])
      assert.deepEqual(
        granted.map((standing) => standing.state),
        ['granted', 'granted'],
      )
      const again = await backend.join([inGroup('a', 'a2', 'g2'), inGroup('b', 'b2', 'g2')])
      assert.deepEqual(
        again.map((standing) => standing.state),
        ['granted', 'granted'],
        'a repeated group is the same group',
      )
      assert.deepEqual(await backend.leave([leave(line('a'), 'a2'), leave(line('b'), 'b2')]), [true, true])
    },
  },
]
