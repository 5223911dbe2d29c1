import assert from 'node:assert/strict'
import { ClosedError, UnsupportedError } from '../../core/errors.js'
import type { Case } from '../case.js'
import { eventually, within } from '../wait.js'

/** The life of a client: closing, leading, requiring. */
export const life: readonly Case[] = [
  {
    name: 'close lets go of what is held, aborts its signals and settles every waiter',
    run: async ({ connect, name, stand }) => {
      const [a, b] = [await connect(), await connect()]
      const held = await a.lock(name('held')).acquire()
      const other = await b.lock(name('other')).acquire()
      const waiting = a.lock(name('other')).acquire()
      const settled = assert.rejects(waiting, ClosedError)
      await stand(b, name('other'), 2)
      const { signal } = held
      await within('close', a.close())
      await settled
      assert.ok(signal.aborted)
      assert.ok(await b.lock(name('held')).tryAcquire(), 'free at once')
      assert.equal((await b.view(name('other')))[0]!.tickets.length, 1)
      await assert.rejects(a.lock(name()).acquire(), ClosedError)
      await other.release()
    },
  },
  {
    name: 'an election has one leader, and the next leads when it resigns',
    run: async ({ connect, name, stand }) => {
      const [a, b] = [await connect({ owner: 'a' }), await connect({ owner: 'b' })]
      const stop = new AbortController()
      const log: string[] = []
      const first = a.election(name()).lead(
        async (lease, term) => {
          log.push('a leads')
          assert.equal((await b.election(name()).leader())?.owner, 'a')
          await stand(a, name(), 2)
          stop.abort(new Error('resign'))
          assert.ok(term.signal.aborted)
          assert.equal(lease.state, 'held')
          log.push('a ends')
        },
        { signal: stop.signal },
      )
      await eventually('a leads', () => log.includes('a leads'))
      const second = b.election(name()).lead(() => void log.push('b leads'))
      await within('both terms', Promise.all([first, second]))
      assert.deepEqual(log, ['a leads', 'a ends', 'b leads'])
    },
  },
  {
    name: 'a lost leader campaigns again, after its function has settled',
    run: async ({ connect, name }) => {
      const [a, operator] = [await connect(), await connect()]
      let running = 0
      let terms = 0
      const leading = a.election(name()).lead(async (lease) => {
        running += 1
        terms += 1
        assert.equal(running, 1, 'a term never starts before the previous function has settled')
        if (terms === 1) {
          const gone = new Promise((resolve) => lease.signal.addEventListener('abort', resolve))
          const [line] = await operator.view(name())
          await operator.evict(line!.tickets[0]!)
          await gone
          await new Promise((resolve) => setTimeout(resolve, 50))
        }
        running -= 1
        return terms
      })
      assert.equal(await within('the second term', leading), 2)
    },
  },
  {
    name: 'require is answered by the guarantees, before anything is taken',
    run: async ({ connect, name, guarantees }) => {
      const locks = await connect()
      await (await locks.lock(name()).acquire({ require: { ...guarantees } })).release()
      const more = { ...guarantees, minTtlMs: guarantees.minTtlMs - 1 }
      await assert.rejects(locks.lock(name()).acquire({ require: more }), UnsupportedError)
      assert.deepEqual(await locks.view(name()), [])
    },
  },
]
