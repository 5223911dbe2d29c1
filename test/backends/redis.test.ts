import { guarantees } from '../../src/backends/redis/guarantees.js'
import { startCluster, startRedis, startSentinel } from '../servers/index.js'
import { describeBackend } from '../suite.js'

describeBackend('redis', guarantees(false, 0), () => startRedis())
describeBackend('redis on a Cluster', guarantees(true, 0), () => startCluster())
describeBackend('redis by Sentinel, with replicas', guarantees(false, 1), async () => {
  const sentinels = await startSentinel()
  return { url: `${sentinels.url}?replicas=1`, stop: () => sentinels.stop() }
})
