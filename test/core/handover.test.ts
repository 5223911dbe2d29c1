import { expect, test } from 'vitest'
import { BackendError, ConfigError, LockLostError } from '../../src/core/errors.js'
import { Holdfast } from '../../src/core/holdfast.js'
import type { Lease } from '../../src/core/lease.js'
import type { AcquireOptions } from '../../src/core/options.js'
import { troubled } from './troubled.js'

test('an adoption whose whole call failed is asked again: only we can repeat the swap', async () => {
  const { locks, trouble, at, backend, clock } = troubled()
  const text = await (await locks.lock('x').acquire()).serialize()
  let failures = 2
  trouble.renew = () =>
    failures-- > 0 ? Promise.reject(new BackendError('broken', { retryable: true })) : Promise.resolve()
  const adopting = locks.adopt(text)
  await at(1_000)
  const lease = await adopting
  expect(lease.state).toBe('held')
  await expect(new Holdfast(backend, { clock }).adopt(text)).rejects.toThrow(LockLostError)
  await lease.release()
  await locks.close()
})

test('of two calls of serialize one gives a text', async () => {
  const { locks } = troubled()
  const lease = await locks.lock('x').acquire()
  const texts = await Promise.allSettled([lease.serialize(), lease.serialize()])
  expect(texts.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
  await locks.close()
})

test('a hold that is taken again while it is being handed over is not handed over', async () => {
  const { locks, trouble, at, later } = troubled()
  const lease = await locks.lock('x').acquire()
  trouble.renew = () => later(100)
  const refused = expect(lease.serialize()).rejects.toThrow(ConfigError)
  const inner = await locks.lock('x').acquire({ within: lease })
  await at(200)
  await refused
  expect([lease.state, inner.state]).toEqual(['held', 'held'])
  await inner.release()
  await lease.release()
  await locks.close()
})

test('a lease of another client is no way in', async () => {
  const { locks, backend, clock } = troubled()
  const other = new Holdfast(backend, { clock })
  const lease = await locks.lock('x').acquire()
  await expect(other.lock('x').acquire({ within: lease })).rejects.toThrow(/another client/)
  await expect(other.lock('x').tryAcquire({ within: lease })).rejects.toThrow(ConfigError)
  await lease.release()
})

test('an inner handle keeps the hold when the outer one is released in the same breath', async () => {
  const { locks } = troubled()
  const outer = await locks.lock('x').acquire()
  const entering = locks.lock('x').acquire({ within: outer })
  void outer.release()
  const inner = await entering
  expect(inner.state).toBe('held')
  expect(await inner.release()).toBe(true)
  await locks.close()
})

test('an adopted hold goes on with what was left of minHold and maxHold, and is renewed or not as before', async () => {
  const { locks, at, backend, clock } = troubled()
  const other = new Holdfast(backend, { clock })
  const handOver = async (options: AcquireOptions): Promise<Lease> => {
    const lease = await locks.lock('x').acquire(options)
    await at(4_000)
    return await other.adopt(await lease.serialize())
  }
  const brief = await handOver({ minHold: '10s' })
  expect(await brief.release()).toBe(true)
  await at(5_900)
  expect(await locks.lock('x').tryAcquire()).toBeUndefined()
  await at(200)

  const hung = await handOver({ maxHold: '10s' })
  await at(5_000)
  expect(hung.state).toBe('held')
  await at(20_000)
  expect(hung.state).toBe('lost')

  const once = await handOver({ renew: false })
  await at(8_000)
  expect(once.state).toBe('held')
  await at(1_000)
  expect(once.state).toBe('lost')

  const plain = await handOver({})
  await at(60_000)
  expect(plain.state).toBe('held')
  await plain.release()
  await Promise.all([locks.close(), other.close()])
})
