import { expect, test } from 'vitest'
import { memory } from '../../src/backends/memory/index.js'
import { connect } from '../../src/connect.js'
import { describeBackend } from '../suite.js'

describeBackend('memory', memory().guarantees, async () => ({ url: 'memory:conformance', stop: async () => {} }))

test('a takeover does not end what a release keeps others out for', async () => {
  const [a, b] = [await connect('memory:kept'), await connect('memory:kept')]
  const lease = await a.lock('x', { owner: 'me', minHold: '1h' }).acquire()
  await lease.release()
  expect(await b.lock('x', { owner: 'me', takeover: true }).tryAcquire()).toBeUndefined()
  await Promise.all([a.close(), b.close()])
})
