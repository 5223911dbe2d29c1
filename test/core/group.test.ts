import { expect, test } from 'vitest'
import { memory } from '../../src/backends/memory/index.js'
import { BackendError, ClosedError, ConfigError, LockTimeoutError } from '../../src/core/errors.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { troubled } from './troubled.js'

test('what a group took on its way to all keeps nobody out for its minHold', async () => {
  for (const atomicGroup of [true, false]) {
    const { locks, at } = troubled({ guarantees: { atomicGroup } })
    const other = await locks.lock('b').acquire()
    const group = locks.all(['a', 'b'], { minHold: '1h' })
    expect(await group.tryAcquire()).toBeUndefined()
    const late = group.acquire({ wait: '1s' })
    const refused = expect(late).rejects.toThrow(LockTimeoutError)
    await at(1_100)
    await refused
    expect(await locks.lock('a').tryAcquire()).toBeDefined()
    await other.release()
    await locks.close()
  }
})

for (const atomicGroup of [true, false]) {
  const how = atomicGroup ? 'in one step' : 'one by one'

  test(`an abort during the first try of a group, ${how}, is answered at once, and what the try takes is given back`, async () => {
    const { locks, trouble, at, later, view, time } = troubled({ guarantees: { atomicGroup } })
    await locks.ready()
    trouble.join = () => later(100)
    const stop = new AbortController()
    let stopped: unknown
    locks
      .all(['a', 'b'])
      .acquire({ signal: stop.signal })
      .catch((error: unknown) => (stopped = error))
    await at(50)
    stop.abort(new Error('enough'))
    await at(0)
    expect(stopped).toMatchObject({ message: 'enough' })
    await at(200)
    expect([await view('a'), await view('b')]).toEqual([[], []])
    await locks.close()
    expect(time.pending).toBe(0)
  })
}

test('an abort while a group waits for one of its lines is answered at once, and the others are given back', async () => {
  const { locks, trouble, at, later, view } = troubled()
  const other = await locks.lock('b').acquire()
  const stop = new AbortController()
  let stopped: unknown
  locks
    .all(['a', 'b'])
    .acquire({ signal: stop.signal })
    .catch((error: unknown) => (stopped = error))
  await at(50)
  expect(await view('a')).toHaveLength(1)
  trouble.leave = () => later(100)
  stop.abort(new Error('enough'))
  await at(0)
  expect(stopped).toMatchObject({ message: 'enough' })
  await at(200)
  expect(await view('a')).toEqual([])
  delete trouble.leave
  await other.release()
  await locks.close()
})

for (const atomicGroup of [true, false]) {
  const how = atomicGroup ? 'in one step' : 'one by one'

  test(`the wait of a group bounds its first try, too, ${how}: a silent store is not waited for any longer`, async () => {
    const { locks, trouble, at, later, view, time } = troubled({ guarantees: { atomicGroup } })
    await locks.ready()
    trouble.join = () => later(4_000)
    let ended: unknown
    locks
      .all(['a', 'b'])
      .acquire({ wait: 300 })
      .catch((error: unknown) => (ended = error))
    await at(301)
    expect(ended).toMatchObject({ code: 'BACKEND', retryable: true, message: expect.stringContaining('unknown') })
    await at(10_000)
    expect([await view('a'), await view('b')]).toEqual([[], []])
    await locks.close()
    expect(time.pending).toBe(0)
  })

  test(`a group that waits, ${how}, outlives a store that is out of reach for a while, like any acquire`, async () => {
    const { locks, trouble, at, view } = troubled({ guarantees: { atomicGroup } })
    await locks.ready()
    trouble.join = () => Promise.reject(new BackendError('cut', { retryable: true }))
    const group = locks.all(['a', 'b']).acquire({ wait: '20s' })
    const held = expect(group).resolves.toMatchObject({ state: 'held' })
    const tried = expect(locks.all(['a', 'b']).tryAcquire()).rejects.toThrow('cut')
    await at(3_000)
    await tried
    delete trouble.join
    await at(3_000)
    await held
    await (await group).release()
    expect([await view('a'), await view('b')]).toEqual([[], []])
    await locks.close()
  })
}

test('a group that waited in vain does not wait for a silent store to take the rest back', async () => {
  const { locks, trouble, at, later, view } = troubled()
  const other = await locks.lock('b').acquire()
  let ended: unknown
  locks
    .all(['a', 'b'])
    .acquire({ wait: 300 })
    .catch((error: unknown) => (ended = error))
  await at(200)
  expect(await view('a')).toHaveLength(1)
  trouble.leave = () => later(4_000)
  await at(1_000)
  expect(ended).toBeInstanceOf(LockTimeoutError)
  expect(await view('a')).toEqual([])
  await at(10_000)
  delete trouble.leave
  await other.release()
  await locks.close()
})

test('a client that is closed after an abort waits until what the group took is given back', async () => {
  const { locks, trouble, at, later, inside, time } = troubled()
  await locks.ready()
  trouble.join = () => later(100)
  const stop = new AbortController()
  const stopped = expect(locks.all(['a', 'b']).acquire({ signal: stop.signal })).rejects.toThrow('enough')
  await at(50)
  stop.abort(new Error('enough'))
  const closed = locks.close()
  await at(500)
  await Promise.all([stopped, closed])
  expect([await inside.view('a'), await inside.view('b')]).toEqual([[], []])
  expect(time.pending).toBe(0)
})

test('close ends a group on its way, and leaves no ticket, timer or promise behind', async () => {
  const { locks, trouble, at, later, inside, time } = troubled()
  await locks.ready()
  trouble.join = () => later(100)
  const ended = expect(locks.all(['a', 'b']).acquire()).rejects.toThrow(ClosedError)
  await at(50)
  const closed = locks.close()
  await at(500)
  await ended
  await closed
  expect([await inside.view('a'), await inside.view('b')]).toEqual([[], []])
  expect(time.pending).toBe(0)
})

test('an answer for a group that comes too late is unknown, not "taken"', async () => {
  const { locks, trouble, at, later } = troubled({ callTimeout: '1m' })
  await locks.ready()
  trouble.join = () => later(10_000)
  const unknown = expect(locks.all(['a', 'b']).tryAcquire()).rejects.toThrow(BackendError)
  await at(11_000)
  await unknown
  await locks.close()
})

test('half an answer for a group is none: what the store granted at the second try does not stay behind', async () => {
  const { locks, trouble, at, view } = troubled()
  await locks.ready()
  let calls = 0
  trouble.answer = (standings) => {
    calls += 1
    if (calls > 1) return standings
    return [{ state: 'refused' }, { state: 'failed', error: new BackendError('half', { retryable: true }) }]
  }
  const group = locks.all(['a', 'b']).tryAcquire()
  await at(1_000)
  const lease = await group
  expect(lease?.state).toBe('held')
  await lease?.release()
  expect([await view('a'), await view('b')]).toEqual([[], []])
  await locks.close()
})

test('a reentered member stays held while the rest is waited for, and the undo leaves it to its outer handle', async () => {
  const { locks, at } = troubled()
  const blocker = await locks.lock('b').acquire()
  await locks.lock('a').use(async (outer) => {
    const group = locks.all(['a', 'b'], { reentrant: true })
    const refused = expect(group.acquire({ wait: '1s' })).rejects.toThrow(LockTimeoutError)
    await at(1_100)
    await refused
    expect(outer.state).toBe('held')
    expect(await group.tryAcquire()).toBeUndefined()
    expect(outer.state).toBe('held')
    await blocker.release()
    const inner = await group.acquire()
    await outer.release()
    expect(inner.state).toBe('held')
    expect(await inner.release()).toBe(true)
  })
  expect(await locks.lock('a').tryAcquire()).toBeDefined()
  await locks.close()
})

test('options of a group reach every member; the call is nearer', async () => {
  const { locks, view } = troubled()
  const group = locks.all(['a', locks.readWriteLock('b', { owner: 'lock' }).read], { owner: 'group', note: 'n' })
  await using _lease = await group.acquire({ note: 'call' })
  for (const name of ['a', 'b']) {
    expect((await view(name))[0]?.tickets[0]?.holder).toMatchObject({ owner: 'group', note: 'call' })
  }
})

test('locks of another client, and what is no lock, are refused', () => {
  const { locks } = troubled()
  const other = new Holdfast(memory())
  expect(() => locks.all([other.lock('a')])).toThrow(/another client/)
  expect(() => locks.all([undefined as unknown as string])).toThrow(ConfigError)
  expect(() => locks.all('ab' as unknown as string[])).toThrow(ConfigError)
  expect(() => locks.all(['a'], { tll: 1 } as object)).toThrow(/no option 'tll'/)
})

test('a group whose tickets are gone is not told that somebody else holds them', async () => {
  const { locks, trouble } = troubled()
  trouble.answer = (standings) => standings.map(() => ({ state: 'gone' }))
  await expect(locks.all(['a', 'b']).tryAcquire()).rejects.toThrow(BackendError)
  await locks.close()
})
