import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Case, Context } from '../case.js'
import { eventually, within } from '../wait.js'

async function inLine({ connect, name, stand }: Context, count: number): Promise<() => Promise<void>> {
  const locks = await connect()
  return async () => await stand(locks, name(), count)
}

/** Real processes: killed, stopped, stalled, started again. */
export const processes: readonly Case[] = [
  {
    name: 'two processes bump a counter under one lock and lose no update, with growing fences',
    processes: true,
    run: async ({ taker, name, guarantees }) => {
      const [a, b] = await Promise.all([taker(), taker()])
      const directory = mkdtempSync(join(tmpdir(), 'holdfast-'))
      try {
        const file = join(directory, 'counter')
        writeFileSync(file, '0')
        const ask = { key: 'k', name: name(), file, times: 25 }
        const runs = await Promise.all([a.ask('bump', ask), b.ask('bump', ask)])
        assert.equal(readFileSync(file, 'utf8'), '50')
        if (guarantees.fence === 'none') return
        for (const { fences } of runs) {
          assert.ok(fences.every((fence, i) => i === 0 || BigInt(fence) > BigInt(fences[i - 1]!)))
        }
        assert.equal(new Set(runs.flatMap((run) => run.fences)).size, 50)
      } finally {
        rmSync(directory, { recursive: true })
      }
    },
  },
  {
    name: 'kill -9 of a holder: the next is served once the lease has run out',
    processes: true,
    run: async (context) => {
      const { taker, name, ttlMs } = context
      const [holder, next] = await Promise.all([taker(), taker()])
      const first = await holder.ask('acquire', { key: 'k', name: name(), options: { ttl: ttlMs } })
      const waiting = next.ask('acquire', { key: 'k', name: name() })
      await (await inLine(context, 2))()
      await holder.kill()
      const second = await within('the next is served', waiting)
      if (context.guarantees.fence !== 'none') assert.ok(BigInt(second.fence) > BigInt(first.fence))
      assert.equal((await next.ask('release', { key: 'k' })).released, true)
    },
  },
  {
    name: 'kill -9 of a waiter in the middle of the line: those behind it are served',
    processes: true,
    run: async (context) => {
      const { taker, name, ttlMs } = context
      const [holder, middle, last] = await Promise.all([taker(), taker(), taker()])
      // Only who dies has a short lease: a busy machine must not take the others' away.
      const options = { ttl: ttlMs }
      await holder.ask('acquire', { key: 'k', name: name() })
      const dead = assert.rejects(middle.ask('acquire', { key: 'k', name: name(), options }))
      await (await inLine(context, 2))()
      const waiting = last.ask('acquire', { key: 'k', name: name() })
      await (await inLine(context, 3))()
      await middle.kill()
      await dead
      await holder.ask('release', { key: 'k' })
      await within('the last is served', waiting)
      assert.equal((await last.ask('release', { key: 'k' })).released, true)
    },
  },
  {
    name: 'kill -9 of the process that was just granted: the next is served',
    processes: true,
    run: async (context) => {
      const { taker, name, ttlMs } = context
      const [holder, granted, last] = await Promise.all([taker(), taker(), taker()])
      // Only who dies has a short lease: a busy machine must not take the others' away.
      const options = { ttl: ttlMs }
      await holder.ask('acquire', { key: 'k', name: name() })
      const never = granted.ask('acquire', { key: 'k', name: name(), options })
      never.catch(() => undefined)
      await (await inLine(context, 2))()
      const waiting = last.ask('acquire', { key: 'k', name: name() })
      await (await inLine(context, 3))()
      // It cannot even learn of its grant: stopped before the release, killed after it.
      granted.signal('SIGSTOP')
      await holder.ask('release', { key: 'k' })
      await granted.kill()
      await within('the last is served', waiting)
      assert.equal((await last.ask('release', { key: 'k' })).released, true)
    },
  },
  {
    name: 'SIGSTOP of a holder past its ttl: it knows at its first turn, and frees nobody else’s hold',
    processes: true,
    run: async ({ taker, name, ttlMs, guarantees }) => {
      const [paused, next] = await Promise.all([taker(), taker()])
      const first = await paused.ask('acquire', { key: 'k', name: name(), options: { ttl: ttlMs } })
      paused.signal('SIGSTOP')
      const second = await within('the next is served', next.ask('acquire', { key: 'k', name: name() }), 40_000)
      paused.signal('SIGCONT')
      const { state, asserts } = await paused.ask('state', { key: 'k' })
      assert.equal(state, 'lost')
      assert.equal(asserts, false)
      await eventually('its signal has aborted', () => paused.lost.includes('k'))
      assert.equal((await paused.ask('release', { key: 'k' })).released, false)
      assert.equal((await next.ask('state', { key: 'k' })).state, 'held')
      if (guarantees.fence !== 'none') assert.ok(BigInt(second.fence) > BigInt(first.fence))
      assert.equal((await next.ask('release', { key: 'k' })).released, true)
    },
  },
  {
    name: 'a busy event loop for 1.5 × ttl: the holder does not believe in what it lost',
    processes: true,
    run: async ({ taker, name, ttlMs }) => {
      const busy = await taker()
      await busy.ask('acquire', { key: 'k', name: name(), options: { ttl: ttlMs } })
      const { state, asserts } = await busy.ask('busy', { key: 'k', ms: ttlMs * 1.5 })
      assert.equal(state, 'lost')
      assert.equal(asserts, false)
      await busy.ask('release', { key: 'k' })
    },
  },
  {
    name: 'fences go on growing when every process was started anew',
    processes: true,
    requires: { fence: 'clock' },
    run: async ({ taker, name }) => {
      let last = 0n
      for (let i = 0; i < 3; i += 1) {
        const one = await taker()
        const { fence } = await one.ask('acquire', { key: 'k', name: name() })
        assert.ok(BigInt(fence) > last)
        last = BigInt(fence)
        await one.ask('release', { key: 'k' })
        await one.kill()
      }
    },
  },
  {
    name: 'a hold is handed from process to process, and outlives the first',
    processes: true,
    requires: { handover: true },
    run: async ({ taker, name, ttlMs }) => {
      const [first, second] = await Promise.all([taker(), taker()])
      const { fence } = await first.ask('acquire', { key: 'k', name: name(), options: { ttl: ttlMs * 5 } })
      const { text } = await first.ask('serialize', { key: 'k' })
      await first.kill()
      const adopted = await second.ask('adopt', { key: 'k', text })
      assert.equal(adopted.fence, fence)
      assert.equal((await second.ask('release', { key: 'k' })).released, true)
    },
  },
]
