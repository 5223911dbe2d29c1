// A rolling move from a home-made `SET key value NX PX` lock: old and new processes exclude each other.
//
//   REDIS_URL=redis://localhost:6379 node build/examples/redis-migration.js
import { Holdfast } from 'holdfast'
import { redis } from 'holdfast/redis'
import { Redis } from 'ioredis'

const client = new Redis(process.env['REDIS_URL'] ?? 'redis://localhost:6379')
// The prefix that the old keys have: here they are 'lock:' and the name.
const locks = new Holdfast(redis(client, { prefix: 'lock:' }))

/** What the old processes do. */
async function oldLock(name: string, value: string): Promise<boolean> {
  return (await client.set(`lock:${name}`, value, 'PX', 2_000, 'NX')) === 'OK'
}

console.log('the old one has it:', await oldLock('invoice:42', 'old-process'))
console.log('the new one, meanwhile:', await locks.lock('invoice:42').tryAcquire())

// It waits, and is served when the old lock is deleted or lapses.
const lease = await locks.lock('invoice:42').acquire({ wait: '10s' })
console.log('the new one has it:', lease.state)
console.log('the old one, meanwhile:', await oldLock('invoice:42', 'old-process'))
await lease.release()

await locks.close()
client.disconnect()
