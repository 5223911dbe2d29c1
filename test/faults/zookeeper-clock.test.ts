import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { answered, type Created, ZooKeeperClient } from '../../src/backends/zookeeper/client/client.js'
import { MODE, OPEN_ACL } from '../../src/backends/zookeeper/client/protocol.js'
import { connect, type Holdfast } from '../../src/index.js'
import { type Proxy, type Server, startProxy, startZookeeper } from '../servers/index.js'
import { SteppedClock, SteppedHolder } from './stepped-clock.js'

const SESSION_MS = 3_000
const EVENTUALLY = { timeout: 20_000 }

let server: Server
let others: Holdfast
let holder: SteppedHolder

const url = (port: number): string => `zookeeper://127.0.0.1:${port}/clock?session=${SESSION_MS}ms&tick=200ms`
const standing = async (): Promise<number> => (await others.view('clock'))[0]?.tickets.length ?? 0

/** Nobody else gets it, for longer than the session. */
async function staysHeld(): Promise<void> {
  const until = performance.now() + 2 * SESSION_MS
  while (performance.now() < until) {
    expect(await others.lock('clock').tryAcquire()).toBeUndefined()
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  expect(await holder.tell('state')).toBe('held')
}

describe("a step of the holder's wall clock", () => {
  let proxy: Proxy

  beforeEach(async () => {
    server = await startZookeeper()
    proxy = await startProxy(server)
    others = await connect(url(server.port))
    holder = new SteppedHolder(await SteppedClock.make(), url(proxy.port))
    await expect.poll(standing, EVENTUALLY).toBe(1)
  })

  afterEach(async () => {
    await holder.kill()
    await others.close()
    await proxy.stop()
    await server.stop()
  })

  test('forward: in doubt until it is renewed, and held again; back: nothing', async () => {
    expect(await holder.tell('+3600')).toBe('uncertain 1')
    await expect.poll(() => holder.tell('state'), EVENTUALLY).toBe('held')
    expect(await holder.tell('-3600')).toBe('held -1')
    await staysHeld()
    expect(await holder.tell('release')).toBe('true')
    await (await others.lock('clock').acquire()).release()
  })

  test('back, while it is cut off: that prolongs nothing, it is lost before the next holds', async () => {
    proxy.blackhole()
    await holder.tell('-3600')
    const next = await others.lock('clock').acquire({ wait: '30s' })
    const heldAt = Number(process.hrtime.bigint() / 1_000_000n)
    await expect.poll(() => holder.heard('lost') !== undefined, EVENTUALLY).toBe(true)
    expect(holder.heard('lost')!.at).toBeLessThanOrEqual(heldAt)
    await next.release()
  })
})

describe("a step of the server's wall clock", () => {
  let clock: SteppedClock
  let client: ZooKeeperClient

  beforeAll(async () => {
    clock = await SteppedClock.make()
    server = await startZookeeper({ env: clock.env })
    others = await connect(url(server.port))
    client = await new Promise((resolve) => {
      const opening: ZooKeeperClient = new ZooKeeperClient(
        { hosts: [{ host: '127.0.0.1', port: server.port }], timeoutMs: 10_000, tickMs: 200 },
        { connected: () => resolve(opening), disconnected: () => undefined, expired: () => undefined },
      )
      opening.session.start()
    })
  })
  afterEach(async () => {
    await holder.kill()
  })
  afterAll(async () => {
    await client.session.close()
    await others.close()
    await server.stop()
  })

  /** How far ahead the server dates a node that is made now. */
  async function hoursAhead(): Promise<number> {
    const { stat } = await answered<Created>((reply) =>
      client.create('/dated-', new Uint8Array(0), OPEN_ACL, MODE.ephemeralSequential, reply),
    )
    return Math.round((Number(stat.ctime) - Date.now()) / 3_600_000)
  }

  test.each([
    ['forward', '+3600', 1],
    ['back', '-3600', -1],
  ])('%s: no session ends by it, and none lasts longer', async (_, offset, hours) => {
    clock.step('+0')
    holder = new SteppedHolder(await SteppedClock.make(), url(server.port))
    await expect.poll(standing, EVENTUALLY).toBe(1)
    const [before] = await others.view('clock')
    clock.step(offset)
    expect(await hoursAhead()).toBe(hours)
    await staysHeld()
    const waiting = others.lock('clock').acquire({ wait: '30s' })
    await expect.poll(standing, EVENTUALLY).toBe(2)
    // A dead holder stands for one session, no hour.
    await holder.kill()
    const next = await waiting
    expect(next.fence).toBeGreaterThan(before!.tickets[0]!.fence)
    await next.release()
  })
})
