import { Holdfast, openBackend } from 'holdfast'
import type { Backend } from 'holdfast'
import type { Extra } from './contender.js'
import { goal } from './contender.js'

const LEASES = 10_000
const TTL_MS = 6_000
const PERIODS = 3

/** A backend that counts its calls. */
function counted(backend: Backend): { backend: Backend; calls: { join: number; renew: number; leave: number } } {
  const calls = { join: 0, renew: 0, leave: 0 }
  const proxy = new Proxy(backend, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target)
      if (typeof value !== 'function') return value
      if (key === 'join' || key === 'renew' || key === 'leave') calls[key] += 0
      return (...args: unknown[]) => {
        if (key === 'join' || key === 'renew' || key === 'leave') calls[key] += 1
        return (value as (...args: unknown[]) => unknown).apply(target, args)
      }
    },
  })
  return { backend: proxy, calls }
}

/** 10,000 leases kept for three renewal periods: what it costs the store and this process. */
export async function kept(url: string): Promise<Extra> {
  const { backend, calls } = counted(await openBackend(url))
  const client = new Holdfast(backend)
  const leases = await Promise.all(
    Array.from({ length: LEASES }, (_, i) => client.lock(`kept:${i}`).acquire({ ttl: TTL_MS })),
  )
  const before = { ...calls }
  const cpu = process.cpuUsage()
  const periodMs = TTL_MS / 3
  await new Promise((resolve) => setTimeout(resolve, periodMs * PERIODS))
  const used = process.cpuUsage(cpu)
  const held = leases.filter((lease) => lease.state === 'held').length
  const perPeriod = (calls.renew - before.renew) / PERIODS
  await client.close()
  return {
    title: `${LEASES} leases kept for ${PERIODS} renewal periods of ${periodMs} ms`,
    values: {
      'still held': held,
      'store calls a period': perPeriod,
      'CPU ms a period': (used.user + used.system) / 1_000 / PERIODS,
    },
    goals: [
      goal('10,000 kept leases: store calls a renewal period', perPeriod, '≤', 48),
      goal('… still held', held, '≥', LEASES),
    ],
  }
}

/** Time of a hand-off in a line of this many waiters. */
async function handOffMs(url: string, waiters: number, handOffs: number): Promise<number> {
  const { backend } = counted(await openBackend(url))
  const client = new Holdfast(backend)
  const name = `long:${waiters}`
  const first = await client.lock(name).acquire()
  const stop = new AbortController()
  let from = 0
  let done = 0
  const ms = new Promise<number>((resolve) => {
    for (let i = 0; i < waiters; i += 1) {
      client
        .lock(name)
        .acquire({ signal: stop.signal })
        .then(async (lease) => {
          done += 1
          if (done === handOffs) resolve((performance.now() - from) / handOffs)
          if (done < handOffs) await lease.release()
        })
        .catch((error: unknown) => {
          if (!stop.signal.aborted) throw error
        })
    }
  })
  for (;;) {
    const [line] = await client.view(name)
    if (line?.tickets.length === waiters + 1) break
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  from = performance.now()
  await first.release()
  const result = await ms
  stop.abort(new Error('measured'))
  await client.close()
  return result
}

/** A hand-off must cost the same however many wait behind. */
export async function longLine(url: string, long: number = 10_000): Promise<Extra> {
  await handOffMs(url, 10, 9)
  const short: number[] = []
  for (let i = 0; i < 5; i += 1) short.push(await handOffMs(url, 10, 9))
  const few = short.sort((a, b) => a - b)[2]!
  const many = await handOffMs(url, long, 100)
  return {
    title: 'A hand-off in a long line',
    values: { 'ms with 10 waiting': few.toFixed(3), [`ms with ${long} waiting`]: many.toFixed(3) },
    goals: [goal(`hand-off with ${long} waiting against 10`, many / few, '≤', 2)],
  }
}
