import { expect, test } from 'vitest'
import { memory } from '../../src/backends/memory/index.js'
import type { Backend, JoinRequest, Standing } from '../../src/core/backend.js'
import type { Clock } from '../../src/core/clock.js'
import { BackendError, LockLostError } from '../../src/core/errors.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { Random } from '../simulation/random.js'
import { clockOf, VirtualTime } from '../simulation/virtual-clock.js'
import { troubled } from './troubled.js'

interface Trouble {
  join?: () => Promise<void>
  renew?: () => Promise<void>
}

/** A client on a virtual clock whose wall clock can be stepped and whose calls can be troubled. */
function world() {
  const time = new VirtualTime()
  const skew = { wall: 0, uptime: 0 }
  const base = clockOf(time, { pausedUntil: 0, crashed: false }, new Random(7))
  const clock: Clock = { ...base, wall: () => time.now + skew.wall, uptime: () => time.now + skew.uptime }
  const inner = memory({ clock })
  const trouble: Trouble = {}
  const backend: Backend = {
    name: 'memory',
    guarantees: inner.guarantees,
    maxBatch: 100,
    open: (events) => inner.open(events),
    join: async (requests: readonly JoinRequest[]): Promise<Standing[]> => {
      const standings = await inner.join(requests)
      await trouble.join?.()
      return standings
    },
    renew: async (tickets) => {
      await trouble.renew?.()
      return await inner.renew(tickets)
    },
    leave: (tickets) => inner.leave(tickets),
    view: (name) => inner.view(name),
    names: (prefix) => inner.names(prefix),
    close: () => inner.close(),
  }
  const locks = new Holdfast(backend, { clock, ttl: '9s' })
  /** Lets so much time pass. */
  const at = async (ms: number): Promise<void> => {
    const until = time.now + ms
    await time.run(until, () => {})
    time.now = until
  }
  const later = (ms: number): Promise<void> => new Promise((resolve) => void time.after(ms, resolve))
  /** What the store keeps of the lease of a line's first ticket. */
  const remainingMs = async (name: string): Promise<number> => (await inner.view(name))[0]!.tickets[0]!.remainingMs!
  return { time, skew, trouble, locks, at, later, remainingMs }
}

const broken = (): Promise<never> => Promise.reject(new BackendError('broken', { retryable: true }))

test('a renewal that fails makes the lease uncertain; one that succeeds makes it held again', async () => {
  const { trouble, locks, at } = world()
  const lease = await locks.lock('x').acquire()
  expect(lease.state).toBe('held')
  trouble.renew = broken
  await at(3_500)
  expect(lease.state).toBe('uncertain')
  expect(() => lease.assertHeld()).toThrow(LockLostError)
  expect(lease.signal.aborted).toBe(false)
  delete trouble.renew
  await at(1_500)
  expect(lease.state).toBe('held')
  lease.assertHeld()
  await locks.close()
})

test('at the deadline the lease is lost and its signal aborts, whether the store answers or not', async () => {
  const { trouble, locks, at } = world()
  const lease = await locks.lock('x').acquire()
  trouble.renew = () => new Promise(() => {})
  await at(8_800)
  expect(lease.signal.aborted).toBe(false)
  await at(200)
  expect(lease.signal.aborted).toBe(true)
  expect(lease.state).toBe('lost')
  expect(lease.remainingMs).toBe(0)
})

test('a grant that is answered after its own lease has ended is no grant', async () => {
  const { trouble, locks, at, later } = world()
  let slow = true
  trouble.join = async () => {
    if (!slow) return
    slow = false
    await later(4_000)
  }
  const acquiring = locks.lock('x').acquire({ ttl: '3s' })
  await at(10_000)
  const lease = await acquiring
  expect(lease.state).toBe('held')
  expect(lease.fence).toBe(2n)
  await locks.close()
})

test.each(['wall', 'uptime'] as const)(
  'a %s clock that ran ahead means that the machine slept: uncertain until renewed',
  async (which) => {
    const { skew, locks, at } = world()
    const lease = await locks.lock('x').acquire()
    await at(500)
    skew[which] += 3_600_000
    await at(200)
    expect(lease.state).toBe('uncertain')
    expect(() => lease.assertHeld()).toThrow(LockLostError)
    await at(100)
    expect(lease.state).toBe('held')
    await locks.close()
  },
)

test('a hold that is not to be renewed is not prolonged by doubt either', async () => {
  const { skew, locks, at } = world()
  const lease = await locks.lock('x').acquire({ renew: false })
  await at(500)
  skew.wall += 3_600_000
  expect(lease.state).toBe('uncertain')
  await at(8_500)
  expect(lease.state).toBe('lost')
  await locks.close()
})

test('a wall clock that steps back changes nothing', async () => {
  const { skew, locks, at } = world()
  const lease = await locks.lock('x').acquire()
  skew.wall -= 3_600_000
  await at(20_000)
  expect(lease.state).toBe('held')
  await locks.close()
})

test('a hold that was handed a shorter ttl by renew(ttl) is believed in for no longer', async () => {
  const { locks, trouble, at } = world()
  const lease = await locks.lock('x').acquire({ renew: false })
  await lease.renew('2s')
  expect(lease.remainingMs).toBeLessThan(2_000)
  trouble.renew = broken
  await at(2_000)
  expect(lease.state).toBe('lost')
})

test('a shorter renewal that arrives after a longer one: belief is never ahead of the store', async () => {
  const { locks, trouble, at, later, remainingMs } = world()
  const lease = await locks.lock('x').acquire()
  // The renewal of the ttl that it had so far hangs on its way, and arrives behind the longer one.
  trouble.renew = () => {
    delete trouble.renew
    return later(4_000)
  }
  await at(3_100)
  await lease.renew('60s')
  expect(await remainingMs('x')).toBeGreaterThan(50_000)
  expect(lease.remainingMs).toBeLessThan(9_000)
  await at(3_990)
  expect(lease.state).toBe('held')
  for (let i = 0; i < 40; i += 1) {
    await at(100)
    expect(lease.remainingMs).toBeLessThan(await remainingMs('x'))
  }
  // Answered meanwhile: what is sent from now on is all there is.
  expect(lease.remainingMs).toBeGreaterThan(50_000)
  await lease.release()
})

test('a shorter renewal that was never answered bounds belief for as long as it may arrive', async () => {
  const { locks, trouble, at } = world()
  const lease = await locks.lock('x').acquire()
  trouble.renew = () => {
    delete trouble.renew
    return broken()
  }
  await at(3_050)
  await lease.renew('60s')
  expect(lease.remainingMs).toBeLessThan(9_000)
  await at(30_000)
  expect(lease.remainingMs).toBeLessThan(9_000)
  await at(40_000)
  expect(lease.remainingMs).toBeGreaterThan(30_000)
  await lease.release()
})

test('a second outage is met with as short a pause as the first', async () => {
  const { locks, trouble, at } = troubled()
  const lease = await locks.lock('x').acquire()
  let tries = 0
  const asked = async (): Promise<number> => {
    tries = 0
    trouble.renew = () => {
      tries += 1
      return broken()
    }
    // From the next renewal on, at a third of the ttl.
    await at(5_000)
    delete trouble.renew
    await at(2_000)
    expect(lease.state).toBe('held')
    return tries
  }
  const first = await asked()
  expect(first).toBeGreaterThan(6)
  expect(await asked()).toBeGreaterThan(6)
  await lease.release()
})

test('a release asks for the whole time of a call, although the lease lapses or has lapsed meanwhile', async () => {
  const { locks, trouble, at } = troubled()
  const [lapsing, lapsed] = await Promise.all(
    ['x', 'y'].map((name) => locks.lock(name).acquire({ ttl: 500, renew: false })),
  )
  trouble.leave = broken
  await at(100)
  const first = lapsing!.release()
  await at(900)
  expect(lapsed!.state).toBe('lost')
  const second = lapsed!.release()
  const settled = Promise.allSettled([first, second])
  await at(2_000)
  delete trouble.leave
  await at(1_500)
  expect(await settled).toEqual([0, 1].map(() => ({ status: 'fulfilled', value: false })))
})

test('a release with a `minHold` that the store did not hear of is told to it later, like any other', async () => {
  const { locks, at, inside, view } = troubled({ guarantees: { minHold: 'store' } })
  const lease = await locks.lock('x').acquire({ ttl: '1h', minHold: '12s' })
  const leave = inside.leave.bind(inside)
  inside.leave = () => broken().then(() => [])
  const released = expect(lease.release()).rejects.toThrow(BackendError)
  await at(10_000)
  await released
  inside.leave = leave
  await at(1_500)
  // Others are kept out until then, and no longer.
  expect((await view('x'))[0]?.tickets).toMatchObject([{ left: true }])
  await at(1_000)
  expect(await view('x')).toEqual([])
})

test('use gives back the function’s own result and error, and LockLostError only when asked for', async () => {
  const { locks, trouble, at, later } = world()
  await expect(locks.lock('x').use(() => 42)).resolves.toBe(42)
  const own = new Error('mine')
  await expect(locks.lock('x').use(() => Promise.reject(own))).rejects.toBe(own)
  trouble.renew = broken
  const quiet = locks.lock('y').use(async () => {
    await later(20_000)
    return 'done'
  })
  const loud = expect(locks.lock('z').use(() => later(20_000), { onLost: 'throw' })).rejects.toThrow(LockLostError)
  await at(30_000)
  await expect(quiet).resolves.toBe('done')
  await loud
})

test('close leaves no timer behind', async () => {
  const { time, locks, at } = world()
  await locks.lock('held').acquire()
  const waiting = locks.lock('held').acquire({ wait: '1h' })
  waiting.catch(() => undefined)
  await at(5_000)
  await locks.close()
  await expect(waiting).rejects.toThrow('closed')
  expect(time.pending).toBe(0)
})

test('a grace that is much longer than the ttl keeps nobody from holding', async () => {
  const { locks, at } = world()
  const lease = await locks.lock('x').acquire({ ttl: 300, grace: '1h' })
  await at(2_000)
  expect(lease.state).toBe('held')
  expect(await lease.release()).toBe(true)
})

/** Somebody waits for 8 s for what is held, and after one of them the store breaks. */
async function brokenWhileWaiting() {
  const { trouble, locks, at } = world()
  await locks.lock('x').acquire()
  const outcome = locks
    .lock('x')
    .acquire({ wait: '8s' })
    .catch((error: unknown) => error)
  await at(1_000)
  trouble.renew = broken
  return { trouble, at, outcome: () => outcome }
}

test('a store that broke while one waited has not said that it is taken', async () => {
  const { at, outcome } = await brokenWhileWaiting()
  await at(8_000)
  expect(await outcome()).toMatchObject({ code: 'BACKEND', retryable: true, cause: { message: 'broken' } })
})

test('a store that broke and was back while one waited has said so', async () => {
  const { trouble, at, outcome } = await brokenWhileWaiting()
  await at(2_000)
  delete trouble.renew
  await at(6_000)
  expect(await outcome()).toMatchObject({ code: 'LOCK_TIMEOUT' })
})

test('a renewal to a shorter ttl whose answer is lost is believed in no longer than the store may keep it', async () => {
  const { backend, locks, at } = troubled()
  const inside = { ...backend }
  const lease = await locks.lock('x').acquire({ ttl: '9s' })
  backend.renew = async (tickets) => {
    await inside.renew(tickets)
    backend.renew = broken
    throw new BackendError('the answer is lost', { retryable: true })
  }
  await expect(lease.renew('1s')).rejects.toThrow('the answer is lost')
  expect(lease.remainingMs).toBeLessThan(1_000)
  await at(1_000)
  expect(lease.signal.aborted).toBe(true)
  expect(lease.state).toBe('lost')
  await locks.close()
})

test('a renewal to a shorter ttl that had no answer is made again in time', async () => {
  const { backend, locks, at } = troubled()
  const inside = { ...backend }
  const lease = await locks.lock('x').acquire({ ttl: '9s' })
  backend.renew = broken
  await expect(lease.renew('1s')).rejects.toThrow('broken')
  backend.renew = (tickets) => inside.renew(tickets)
  await at(5_000)
  expect(lease.state).toBe('held')
  expect(lease.remainingMs).toBeLessThan(1_000)
  await locks.close()
})
