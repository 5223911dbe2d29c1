// A try whose answer came after its own lease would have ended: it was no acquire, and is asked again.
import { expect, test } from 'vitest'
import { BackendError } from '../../src/core/errors.js'
import { troubled } from './troubled.js'

/** A client whose first join reaches the store after the ttl, and whose leaves are on their way for so long. */
function late(leaveMs: number) {
  const { backend, locks, at, later, view } = troubled({ callTimeout: '5s' })
  const inside = { ...backend }
  let joins = 0
  backend.join = async (requests) => {
    joins += 1
    if (joins === 1) await later(1_500)
    return await inside.join(requests)
  }
  backend.leave = async (tickets) => {
    await later(leaveMs)
    return await inside.leave(tickets)
  }
  return { locks, at, view, tried: locks.lock('x').tryAcquire({ ttl: '1s' }) }
}

test('it is asked again once the first ticket has left, which would refuse it', async () => {
  const { locks, at, tried } = late(300)
  await at(3_000)
  const lease = await tried
  expect(lease?.state).toBe('held')
  const closed = locks.close()
  await at(1_000)
  await closed
})

test('with that ticket still on its way out at the end of the call’s time, whether it is free is unknown', async () => {
  const { locks, at, view, tried } = late(60_000)
  const outcome = tried.catch((error: unknown) => error)
  await at(10_000)
  expect(await outcome).toBeInstanceOf(BackendError)
  expect(await outcome).toMatchObject({ retryable: true })
  await at(60_000)
  expect(await view('x')).toEqual([])
  const closed = locks.close()
  await at(60_000)
  await closed
})
