import assert from 'node:assert/strict'
import { RW_CAPACITY } from '../../core/line.js'
import type { Case } from '../case.js'

/** The grant rule, asked of the store itself. */
export const grant: readonly Case[] = [
  {
    name: 'a ticket is granted only when those before it are and the weights fit its own capacity',
    requires: { kinds: ['semaphore'], order: 'fifo' },
    run: async ({ port, name }) => {
      const { backend, join, renew, leave } = await port()
      const line = { kind: 'semaphore', name: name() } as const
      const share = (weight: number) => ({ weight, capacity: 3 })
      // One call a ticket: the order of the tickets of one call is the store's own affair.
      const states: string[] = []
      for (const [id, weight] of [
        ['one', 2],
        ['two', 2],
        ['three', 1],
      ] as const) {
        states.push((await backend.join([join(line, id, share(weight))]))[0]!.state)
      }
      assert.deepEqual(states, ['granted', 'waiting', 'waiting'], 'three fits, but may not pass two')
      assert.deepEqual(await backend.leave([leave(line, 'one')]), [true])
      const after = await backend.renew([renew(line, 'two'), renew(line, 'three')])
      assert.deepEqual(
        after.map((standing) => standing.state),
        ['granted', 'granted'],
      )
      assert.deepEqual(await backend.leave([leave(line, 'two'), leave(line, 'three')]), [true, true])
    },
  },
  {
    name: 'capacities may differ while a semaphore is resized',
    requires: { kinds: ['semaphore'], order: 'fifo' },
    run: async ({ port, name }) => {
      const { backend, join, leave } = await port()
      const line = { kind: 'semaphore', name: name() } as const
      const states: string[] = []
      for (const [id, capacity] of [
        ['a', 1],
        ['b', 2],
        ['c', 2],
        ['d', 9],
      ] as const) {
        states.push((await backend.join([join(line, id, { capacity })]))[0]!.state)
      }
      assert.deepEqual(states, ['granted', 'granted', 'waiting', 'waiting'])
      for (const id of ['a', 'b', 'c', 'd']) assert.deepEqual(await backend.leave([leave(line, id)]), [true])
    },
  },
  {
    name: 'no writer is passed by later readers',
    requires: { kinds: ['rw'], order: 'fifo' },
    run: async ({ port, name }) => {
      const { backend, join, renew, leave } = await port()
      const line = { kind: 'rw', name: name() } as const
      const ask = async (id: string, weight: number) =>
        (await backend.join([join(line, id, { weight, capacity: RW_CAPACITY })]))[0]!.state
      assert.equal(await ask('r1', 1), 'granted')
      assert.equal(await ask('r2', 1), 'granted')
      assert.equal(await ask('w', RW_CAPACITY), 'waiting')
      assert.equal(await ask('r3', 1), 'waiting', 'a reader after a waiting writer waits')
      await backend.leave([leave(line, 'r2')])
      assert.equal((await backend.renew([renew(line, 'w')]))[0]!.state, 'waiting', 'one reader is still there')
      await backend.leave([leave(line, 'r1')])
      assert.equal((await backend.renew([renew(line, 'w')]))[0]!.state, 'granted')
      assert.equal((await backend.renew([renew(line, 'r3')]))[0]!.state, 'waiting')
      await backend.leave([leave(line, 'w')])
      assert.equal((await backend.renew([renew(line, 'r3')]))[0]!.state, 'granted')
      await backend.leave([leave(line, 'r3')])
    },
  },
  {
    name: 'a waiting ticket that leaves lets those behind it through',
    requires: { kinds: ['rw'], order: 'fifo' },
    run: async ({ port, name }) => {
      const { backend, join, renew, leave } = await port()
      const line = { kind: 'rw', name: name() } as const
      await backend.join([join(line, 'r1', { capacity: RW_CAPACITY })])
      await backend.join([join(line, 'w', { weight: RW_CAPACITY, capacity: RW_CAPACITY })])
      await backend.join([join(line, 'r2', { capacity: RW_CAPACITY })])
      assert.deepEqual(await backend.leave([leave(line, 'w')]), [true])
      assert.equal((await backend.renew([renew(line, 'r2')]))[0]!.state, 'granted')
      await backend.leave([leave(line, 'r1'), leave(line, 'r2')])
    },
  },
  {
    name: 'a join that may not wait is refused and stands nowhere',
    run: async ({ port, name }) => {
      const { backend, join, renew, leave } = await port()
      const line = { kind: 'mutex', name: name() } as const
      await backend.join([join(line, 'holder')])
      assert.equal((await backend.join([join(line, 'other', { wait: false })]))[0]!.state, 'refused')
      assert.equal((await backend.renew([renew(line, 'other')]))[0]!.state, 'gone')
      assert.deepEqual(await backend.leave([leave(line, 'other')]), [false])
      assert.deepEqual(await backend.leave([leave(line, 'holder')]), [true])
      assert.equal((await backend.join([join(line, 'third', { wait: false })]))[0]!.state, 'granted')
      await backend.leave([leave(line, 'third')])
    },
  },
  {
    name: 'the kinds of one name are lines of their own',
    requires: { kinds: ['mutex', 'rw', 'semaphore'] },
    run: async ({ connect, name }) => {
      const locks = await connect()
      const held = [
        await locks.lock(name()).tryAcquire(),
        await locks.readWriteLock(name()).write.tryAcquire(),
        await locks.semaphore(name(), 1).tryAcquire(),
      ]
      assert.ok(held.every((lease) => lease !== undefined))
      for (const lease of held) await lease.release()
    },
  },
]
