import { Redis } from 'ioredis'
import { expect } from 'vitest'
import { guarantees } from '../../src/backends/redis/guarantees.js'
import { type Server, startRedis, TurnedClock } from '../servers/index.js'
import { describeBackend } from '../suite.js'

/** Longer than any lease or tombstone of the suite. */
const LATER_S = 3_600

describeBackend('redis', guarantees(false, 0), async () => {
  const clock = new TurnedClock(0)
  const server = await startRedis({ clock })
  return {
    url: server.url,
    stop: async () => {
      // Of a server that runs outside of the tests, neither the clock nor the keys are ours.
      if (server.pid === 0) return
      clock.turn(LATER_S)
      const left = await keys(server)
      await server.stop()
      // What docs/backends/redis.md says that stays, of all that the cases did, crashes and lost replies included.
      expect(left).toEqual(['holdfast:\0last'])
    },
  }
})

async function keys(server: Server): Promise<string[]> {
  const redis = new Redis(server.url)
  const found: string[] = []
  for await (const page of redis.scanStream()) found.push(...(page as string[]))
  redis.disconnect()
  return found
}
