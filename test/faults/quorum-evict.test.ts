import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { aborted } from './aborted.js'
import { ThreeRedis } from './three-redis.js'

const TTL_MS = 60_000
/** Long before the lease ends by itself. */
const PATIENCE_MS = TTL_MS / 2

let three: ThreeRedis
beforeAll(async () => {
  three = await ThreeRedis.start(TTL_MS, 1_500)
})
afterEach(() => three.heal())
afterAll(() => three.stop())

for (const by of ['its own client', 'another client']) {
  for (const away of [0, 1]) {
    test(
      `evicted by ${by}, with ${away} of three servers away: its signal aborts, though nothing renews it`,
      async () => {
        const [a, b] = [await three.client(), await three.client()]
        const name = `${by}, ${away} away`
        const lease = await a.lock(name).acquire({ wait: PATIENCE_MS, renew: false })
        for (const proxy of three.proxies.slice(0, away)) await proxy.refuse()
        const operator = by === 'its own client' ? a : b
        const [line] = await operator.view(name)
        expect(await operator.evict(line!.tickets[0]!)).toBe(true)
        await aborted(lease.signal)
        expect(lease.state).toBe('lost')
        expect(await lease.release()).toBe(false)
      },
      PATIENCE_MS,
    )
  }
}
