import { expect, test } from 'vitest'
import { BackendError, ClosedError } from '../../src/core/errors.js'
import { troubled } from './troubled.js'

const never = (): Promise<never> => new Promise(() => {})

test('close keeps what is left of a minHold: in the store, where that can', async () => {
  for (const lease of ['ticket', 'session'] as const) {
    const { locks, at, view, time } = troubled({ guarantees: { lease } })
    await locks.lock('x').acquire({ minHold: '20s' })
    await locks.close()
    expect((await view('x'))[0]?.tickets[0]?.left).toBe(true)
    await at(21_000)
    expect(await view('x')).toEqual([])
    expect(time.pending).toBe(0)
  }
})

test('close waits for a minHold that only the process can keep, released or not', async () => {
  for (const release of [true, false]) {
    const { locks, at, view, time } = troubled({ guarantees: { minHold: 'process' } })
    const lease = await locks.lock('x').acquire({ minHold: '20s' })
    if (release) expect(await lease.release()).toBe(true)
    let closed = false
    const closing = locks.close().then(() => (closed = true))
    expect(lease.state).toBe(release ? 'released' : 'lost')
    expect(lease.signal.aborted).toBe(!release)
    await at(19_000)
    expect([closed, (await view('x')).length]).toEqual([false, 1])
    await at(2_000)
    await closing
    expect(await view('x')).toEqual([])
    expect(time.pending).toBe(0)
  }
})

test('close waits for a release under way; a release after it is a plain no', async () => {
  const { locks, trouble, at, later, closed } = troubled()
  const lease = await locks.lock('x').acquire()
  const other = await locks.lock('y').acquire()
  trouble.leave = () => later(300)
  const released = lease.release()
  const closing = locks.close()
  await at(200)
  expect(closed).toEqual([])
  await at(300)
  await closing
  expect(await released).toBe(true)
  expect(other.state).toBe('lost')
  expect(await other.release()).toBe(false)
})

test('close ends although the store never opens, and everything that waited for it', async () => {
  const { locks, trouble, at, time, closed } = troubled()
  let open = (): void => undefined
  trouble.open = () => new Promise((resolve) => void (open = resolve))
  const ended = expect(locks.lock('x').acquire()).rejects.toThrow(ClosedError)
  const group = expect(locks.all(['x', 'y']).acquire()).rejects.toThrow(ClosedError)
  const closing = locks.close()
  await at(6_000)
  await Promise.all([closing, ended, group])
  expect(closed).toEqual([])
  open()
  await at(1)
  expect(closed).toEqual(['backend'])
  expect(time.pending).toBe(0)
})

test('an acquire waits no longer for a store to open than it would for the lock', async () => {
  const { locks, trouble, at } = troubled()
  trouble.open = never
  const late = expect(locks.lock('x').acquire({ wait: '1s' })).rejects.toThrow(BackendError)
  const stop = new AbortController()
  const stopped = expect(locks.lock('x').acquire({ signal: stop.signal })).rejects.toThrow('enough')
  await at(500)
  stop.abort(new Error('enough'))
  await stopped
  await at(600)
  await late
})

test('close answers what was asked and never answered: a renewal, a view, an adoption', async () => {
  const { locks, trouble, at, time } = troubled()
  const lease = await locks.lock('x').acquire()
  trouble.renew = never
  trouble.view = never
  const asked = [
    expect(lease.renew()).rejects.toThrow(),
    expect(locks.view('x')).rejects.toThrow(ClosedError),
    expect(locks.election('x').leader()).rejects.toThrow(ClosedError),
  ]
  await at(100)
  const closing = locks.close()
  await at(100)
  await closing
  await Promise.all(asked)
  expect(time.pending).toBe(0)
})

test('lines() of a store that stalls ends with an error, and does not hang', async () => {
  const { locks, trouble, at } = troubled()
  trouble.names = never
  const lines = expect(locks.lines()[Symbol.asyncIterator]().next()).rejects.toThrow(BackendError)
  await at(6_000)
  await lines
  await locks.close()
})

test('a lease that was lost before the close is released after it without an error', async () => {
  const { locks, at } = troubled()
  const lease = await locks.lock('x').acquire({ renew: false })
  await at(10_000)
  await locks.close()
  expect(await lease.release()).toBe(false)
})
