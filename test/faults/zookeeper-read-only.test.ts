import { connect as connectSocket } from 'node:net'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { zookeeper } from '../../src/backends/zookeeper/index.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { type Ensemble, type Server, startZookeeperEnsemble } from '../servers/index.js'

const SESSION_MS = 3_000
const EVENTUALLY = { timeout: 60_000, interval: 50 }
const clients: Holdfast[] = []
let ensemble: Ensemble

beforeAll(async () => {
  ensemble = await startZookeeperEnsemble({ args: ['-Dreadonlymode.enabled=true'] })
})
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()))
  await ensemble.stop()
})

function connect(members: readonly Server[], unfair = false): Holdfast {
  const hosts = members.map(({ port }) => `127.0.0.1:${port}`).join(',')
  const client = new Holdfast(zookeeper({ hosts, session: SESSION_MS, tick: '200ms', path: '/read-only', unfair }))
  clients.push(client)
  return client
}

/** 'leader', 'follower', 'read-only', or nothing while it serves nobody. */
async function mode(server: Server): Promise<string | undefined> {
  return await new Promise((resolve) => {
    const socket = connectSocket(server.port, '127.0.0.1')
    let text = ''
    socket.setTimeout(1_000, () => socket.destroy())
    socket.on('error', () => socket.destroy())
    socket.on('connect', () => socket.write('srvr'))
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    socket.on('close', () => resolve(/Mode: ([\w-]+)/.exec(text)?.[1]))
  })
}

test('a server that is left alone and only lets read gives no lock, keeps none, and says so', async () => {
  const [left, ...others] = ensemble.members as [Server, Server, Server]
  const [holder, waiter, late] = [connect(ensemble.members), connect(ensemble.members), connect([left])]
  const racer = connect([left], true)
  const held = await holder.lock('x').acquire()
  const raced = await racer.lock('raced').acquire()
  const waiting = waiter.lock('x').acquire()
  await vi.waitFor(async () => expect((await holder.view('x'))[0]!.tickets).toHaveLength(2), EVENTUALLY)
  let granted = false
  void waiting.then(() => (granted = true))
  const fences = [held.fence]

  await Promise.all(others.map((other) => other.kill()))
  await vi.waitFor(async () => expect(await mode(left)).toBe('read-only'), EVENTUALLY)
  // By its own clock: nobody is there to end its session.
  await vi.waitFor(() => expect([held.state, raced.state]).toEqual(['lost', 'lost']), EVENTUALLY)
  expect(held.signal.aborted).toBe(true)
  expect(granted).toBe(false)
  for (const client of [late, holder, racer]) {
    const refused = client.lock('y').tryAcquire()
    await expect(refused).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
  }
  // It never sees another server, so this is surely what was last in its way.
  await expect(late.lock('y').tryAcquire()).rejects.toThrow('no majority, or only lets read')
  await expect(late.view('x')).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
  expect(granted).toBe(false)

  await Promise.all(others.map((other) => other.start()))
  const next = await waiting
  fences.push(next.fence)
  await next.release()
  for (const client of [late, holder]) {
    const lease = await client.lock('x').acquire({ wait: '60s' })
    fences.push(lease.fence)
    await lease.release()
  }
  expect(fences).toEqual(fences.toSorted((a, b) => (a < b ? -1 : 1)))
  expect(new Set(fences).size).toBe(4)
  await (await racer.lock('raced').acquire({ wait: '60s' })).release()
})
