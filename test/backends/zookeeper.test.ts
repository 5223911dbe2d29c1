import { zookeeper } from '../../src/backends/zookeeper/index.js'
import { startZookeeper } from '../servers/index.js'
import { describeBackend } from '../suite.js'

describeBackend('zookeeper', zookeeper({ hosts: 'localhost' }).guarantees, async () => {
  const server = await startZookeeper()
  return { url: `${server.url}/conformance?session=2s&tick=200ms`, stop: () => server.stop() }
})
