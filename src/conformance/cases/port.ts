import assert from 'node:assert/strict'
import type { Case } from '../case.js'
import { eventually } from '../wait.js'

/** What core relies on: calls that may be repeated, come late, or come from somebody else. */
export const portCases: readonly Case[] = [
  {
    name: 'a repeated join keeps its place and its order, and makes no second ticket',
    requires: { order: 'fifo' },
    run: async ({ port, name }) => {
      const { backend, tag, join, renew, leave } = await port()
      const line = { kind: 'mutex', name: name() } as const
      const [first] = await backend.join([join(line, 'a')])
      const [again] = await backend.join([join(line, 'a')])
      assert.equal(first!.state, 'granted')
      assert.equal(again!.state, 'granted')
      assert.equal(first!.state === 'granted' && first!.order, again!.state === 'granted' && again!.order)
      assert.equal((await backend.join([join(line, 'b')]))[0]!.state, 'waiting')
      assert.equal((await backend.join([join(line, 'b')]))[0]!.state, 'waiting')
      const views = await backend.view(line.name)
      assert.deepEqual(
        views.flatMap((view) => view.tickets.map((ticket) => ticket.id)),
        [tag('a'), tag('b')],
      )
      assert.deepEqual(await backend.leave([leave(line, 'a')]), [true])
      assert.equal((await backend.renew([renew(line, 'b')]))[0]!.state, 'granted')
      assert.deepEqual(await backend.leave([leave(line, 'b')]), [true])
      assert.deepEqual(await backend.view(line.name), [])
    },
  },
  {
    name: 'a repeated join of a ticket that was granted meanwhile says so',
    requires: { order: 'fifo' },
    run: async ({ port, name }) => {
      const { backend, join, leave } = await port()
      const line = { kind: 'mutex', name: name() } as const
      await backend.join([join(line, 'a')])
      await backend.join([join(line, 'b')])
      await backend.leave([leave(line, 'a')])
      assert.equal((await backend.join([join(line, 'b')]))[0]!.state, 'granted')
      await backend.leave([leave(line, 'b')])
    },
  },
  {
    name: 'a copy of a join that arrives after its leave makes no zombie',
    run: async ({ port, name }) => {
      const { backend, join, leave } = await port()
      const line = { kind: 'mutex', name: name() } as const
      const copy = join(line, 'a')
      await backend.join([copy])
      assert.deepEqual(await backend.leave([leave(line, 'a', { tombstoneMs: 60_000 })]), [true])
      assert.equal((await backend.join([copy]))[0]!.state, 'gone')
      assert.deepEqual(await backend.view(line.name), [])
    },
  },
  {
    name: 'a leave that overtakes its join buries it: the join answers gone',
    run: async ({ port, name }) => {
      const { backend, join, leave } = await port()
      const line = { kind: 'mutex', name: name() } as const
      assert.deepEqual(await backend.leave([leave(line, 'a', { tombstoneMs: 60_000 })]), [false])
      assert.equal((await backend.join([join(line, 'a')]))[0]!.state, 'gone')
      assert.equal((await backend.join([join(line, 'b')]))[0]!.state, 'granted', 'the line itself is free')
      await backend.leave([leave(line, 'b')])
    },
  },
  {
    name: 'only the handle of a ticket may renew it or leave with it',
    run: async ({ port, name }) => {
      const [mine, other] = [await port(), await port()]
      const line = { kind: 'mutex', name: name() } as const
      await mine.backend.join([mine.join(line, 'a')])
      assert.deepEqual(await other.backend.leave([other.leave(line, 'a', { handle: 'wrong' })]), [false])
      assert.equal((await other.backend.renew([other.renew(line, 'a', { handle: 'wrong' })]))[0]!.state, 'gone')
      assert.equal((await mine.backend.renew([mine.renew(line, 'a')]))[0]!.state, 'granted')
      assert.deepEqual(await mine.backend.leave([mine.leave(line, 'a')]), [true])
      assert.deepEqual(await mine.backend.leave([mine.leave(line, 'a')]), [false], 'the second leave finds nothing')
      assert.equal((await mine.backend.renew([mine.renew(line, 'a')]))[0]!.state, 'gone')
    },
  },
  {
    name: 'the late leave of one ticket does not free the next',
    run: async ({ port, name }) => {
      const { backend, join, leave } = await port()
      const line = { kind: 'mutex', name: name() } as const
      await backend.join([join(line, 'a')])
      await backend.leave([leave(line, 'a')])
      await backend.join([join(line, 'b')])
      assert.deepEqual(await backend.leave([leave(line, 'a')]), [false])
      assert.equal((await backend.join([join(line, 'c', { wait: false })]))[0]!.state, 'refused')
      await backend.leave([leave(line, 'b')])
    },
  },
  {
    name: 'a call of many items answers for each, whatever became of the others',
    run: async ({ port, name }) => {
      const { backend, join, renew, leave } = await port()
      const line = (label: string) => ({ kind: 'mutex', name: name(label) }) as const
      await backend.join([join(line('held'), 'h')])
      await backend.leave([leave(line('buried'), 'z', { tombstoneMs: 60_000 })])
      const joined = await backend.join([
        join(line('free'), 'f'),
        join(line('held'), 'w'),
        join(line('buried'), 'z'),
        join(line('held2'), 'g'),
        join(line('held'), 'r', { wait: false }),
      ])
      assert.deepEqual(
        joined.map((standing) => standing.state),
        ['granted', 'waiting', 'gone', 'granted', 'refused'],
      )
      const renewed = await backend.renew([
        renew(line('free'), 'f'),
        renew(line('none'), 'x'),
        renew(line('held'), 'w'),
      ])
      assert.deepEqual(
        renewed.map((standing) => standing.state),
        ['granted', 'gone', 'waiting'],
      )
      const left = await backend.leave([
        leave(line('none'), 'x'),
        leave(line('free'), 'f'),
        leave(line('held'), 'w'),
        leave(line('held'), 'h'),
        leave(line('held2'), 'g'),
      ])
      assert.deepEqual(left, [false, true, true, true, true])
    },
  },
  {
    name: 'a call may carry as many items as the backend says it takes',
    run: async ({ port, name }) => {
      const { backend, join, renew, leave } = await port()
      const lines = Array.from(
        { length: Math.min(backend.maxBatch, 250) },
        (_, i) => ({ kind: 'mutex', name: name(`${i}`) }) as const,
      )
      const joined = await backend.join(lines.map((line, i) => join(line, `t${i}`)))
      assert.ok(joined.every((standing) => standing.state === 'granted'))
      const renewed = await backend.renew(lines.map((line, i) => renew(line, `t${i}`)))
      assert.ok(renewed.every((standing) => standing.state === 'granted'))
      const left = await backend.leave(lines.map((line, i) => leave(line, `t${i}`)))
      assert.ok(left.every((one) => one === true))
    },
  },
  {
    name: 'whom a leave grants is told by a push',
    requires: { wake: 'push' },
    run: async ({ port, name }) => {
      const [a, b] = [await port(), await port()]
      const line = { kind: 'mutex', name: name() } as const
      await a.backend.join([a.join(line, 'a')])
      await b.backend.join([b.join(line, 'b')])
      await a.backend.leave([a.leave(line, 'a')])
      // Either word will do: a store that must confirm a grant first only says that the line moved.
      await eventually('b is told', () => b.heard.grantedIds.includes('b') || b.heard.movedNames.includes(line.name))
      assert.equal((await b.backend.renew([b.renew(line, 'b')]))[0]!.state, 'granted')
      await b.backend.leave([b.leave(line, 'b')])
    },
  },
]
