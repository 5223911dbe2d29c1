import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { ThreeRedis } from './three-redis.js'

/** Answers that come, but late: because the servers were slow, or because nobody here read them. */

const TTL_MS = 60_000
const NODE_TIMEOUT_MS = 1_500

let three: ThreeRedis
beforeAll(async () => {
  three = await ThreeRedis.start(TTL_MS, NODE_TIMEOUT_MS)
})
afterEach(() => three.heal())
afterAll(() => three.stop())

test('answers that came while the event loop stood still were in time', async () => {
  // No proxies: those stand still, too.
  const locks = await three.client(three.servers)
  const lease = await locks.lock('still').acquire({ wait: TTL_MS / 2 })
  // From now on all servers have the script: one answer is all it takes.
  await lease.renew()
  for (const server of three.servers) server.pause()
  const renewed = lease.renew()
  // It is sent, and from here on timers come before what is read.
  for (let turns = 0; turns < 3; turns += 1) await new Promise((resolve) => setImmediate(resolve))
  for (const server of three.servers) server.resume()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * NODE_TIMEOUT_MS)
  await renewed
  expect(lease.state).toBe('held')
  await lease.release()
})

test('a try whose answers all came too late is not in the way of the next: nobody else is there, so it is had', async () => {
  const locks = await three.client()
  // Looks for the owner's earlier tickets first, and is only then sent: so its leave overtakes it.
  const options = { owner: 'one', takeover: true }
  await locks.lock('first').use(async () => {}, { ...options, wait: TTL_MS / 2 })
  const triedAgain = three.proxies.map(async (proxy) => {
    proxy.replies.fault = 'hold'
    let asked = ''
    // The look, the leave of what it was for, and the next look.
    await proxy.next('requests', (chunk) => {
      asked += chunk.toString()
      return (asked.match(/evalsha[^*]*overtaken/gi) ?? []).length >= 3
    })
  })
  const trying = locks.lock('overtaken').tryAcquire(options)
  await Promise.all(triedAgain)
  await Promise.all(three.proxies.map((proxy) => proxy.heal()))
  const lease = await trying
  expect(lease).toBeDefined()
  await lease!.release()
})
