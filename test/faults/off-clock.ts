import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { expect } from 'vitest'
import { within } from '../../src/conformance/wait.js'
import type { Holdfast } from '../../src/core/holdfast.js'
import { faketime } from '../servers/index.js'

const SCRIPT = `
  const [dist, url, ttl] = process.argv.slice(1)
  const { connect } = await import(dist)
  const locks = await connect(url)
  const lease = await locks.lock('clock').acquire({ ttl: Number(ttl) })
  console.log(JSON.stringify({ at: Date.now(), remaining: lease.remainingMs }))
  process.stdin.once('data', async () => {
    console.log(JSON.stringify({ state: lease.state, released: await lease.release() }))
    await locks.close()
    process.exit(0)
  })`

/**
 * A process whose wall clock is an hour ahead, then one whose is an hour behind, hold for two of their ttls:
 * nobody else gets in, what is seen of them has the right age, and they release what is theirs.
 */
export async function holdWithClockOff(url: string, locks: Holdfast, ttlMs: number): Promise<void> {
  const program = await faketime()
  const dist = new URL('../../dist/index.js', import.meta.url).href
  for (const off of ['+3600s', '-3600s']) {
    const args = ['-f', off, process.execPath, '--input-type=module', '-e', SCRIPT, dist, url, String(ttlMs)]
    const env = { ...process.env, FAKETIME_DONT_FAKE_MONOTONIC: '1', DONT_FAKE_MONOTONIC: '1' }
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'], env, detached: true })
    try {
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
      const said = async (): Promise<unknown> =>
        JSON.parse((await within('the child speaks', lines.next())).value ?? '')
      const first = (await said()) as { at: number; remaining: number }
      expect(Math.abs(first.at - Date.now())).toBeGreaterThan(3_000_000)
      expect(first.remaining).toBeGreaterThan(0)
      expect(first.remaining).toBeLessThanOrEqual(ttlMs)
      const until = performance.now() + 2 * ttlMs
      while (performance.now() < until) {
        expect(await locks.lock('clock').tryAcquire()).toBeUndefined()
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      const [line] = await locks.view('clock')
      expect(line?.tickets[0]?.ageMs).toBeLessThan(60_000)
      child.stdin.write('go\n')
      expect(await said()).toEqual({ state: 'held', released: true })
      await (await within('free', locks.lock('clock').acquire())).release()
      if (child.exitCode === null) await once(child, 'exit')
    } finally {
      // Its whole group: what starts it under another clock stays in between.
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL')
    }
  }
}
