import { expect, test } from 'vitest'
import { Batcher } from '../../src/core/batcher.js'
import { BackendError } from '../../src/core/errors.js'
import { Random } from '../simulation/random.js'
import { clockOf, VirtualTime } from '../simulation/virtual-clock.js'

function world(send: (items: readonly string[]) => Promise<string[]>, maxBatch = 3, worthPipelining?: number) {
  const time = new VirtualTime()
  const calls: string[][] = []
  const batcher = new Batcher<string, string>({
    clock: clockOf(time, { pausedUntil: 0, crashed: false }, new Random(1)),
    send: (items) => {
      calls.push([...items])
      return send(items)
    },
    maxBatch: () => maxBatch,
    worthPipelining,
    timeoutMs: 5_000,
    store: 'test',
  })
  const later = (ms: number): Promise<void> => new Promise((resolve) => void time.after(ms, resolve))
  return { time, calls, batcher, later }
}

test('what arrives while a call is under way travels in the next, at most maxBatch at a time', async () => {
  const { time, calls, batcher, later } = world(async (items) => {
    await later(10)
    return items.map((item) => item.toUpperCase())
  })
  const answers = Promise.all(['a', 'b', 'c', 'd', 'e'].map((item) => batcher.push(item)))
  await time.run(time.now + 100, () => {})
  expect((await answers).map(({ result }) => result)).toEqual(['A', 'B', 'C', 'D', 'E'])
  expect(calls).toEqual([
    ['a', 'b', 'c'],
    ['d', 'e'],
  ])
})

test('where calls may overlap, half of what is there goes out, and the rest follows at once if it is worth a call', async () => {
  const send = async (items: readonly string[]): Promise<string[]> => {
    await later(10)
    return [...items]
  }
  const { time, calls, batcher, later } = world(send, 100, 2)
  const answers = Promise.all(['a', 'b', 'c', 'd', 'e'].map((item) => batcher.push(item)))
  await time.run(time.now + 1, () => {})
  const first = [
    ['a', 'b'],
    ['c', 'd'],
  ]
  // The last alone is not worth a call of its own while others are under way.
  expect(calls).toEqual(first)
  await time.run(time.now + 100, () => {})
  expect(calls).toEqual([...first, ['e']])
  expect((await answers).map(({ result }) => result)).toEqual(['a', 'b', 'c', 'd', 'e'])
})

test('one bad item never fails the others: a failed batch is asked again in halves', async () => {
  const { batcher, calls } = world(async (items) => {
    if (items.includes('bad')) throw new Error('poison')
    return [...items]
  }, 10)
  const answers = await Promise.allSettled(['a', 'b', 'bad', 'c'].map((item) => batcher.push(item)))
  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled'])
  expect(calls[0]).toEqual(['a', 'b', 'bad', 'c'])
})

test('a broken connection is not taken for a bad item: nothing is split', async () => {
  const { batcher, calls } = world(async () => {
    throw new BackendError('gone', { retryable: true })
  }, 10)
  const answers = await Promise.allSettled(['a', 'b'].map((item) => batcher.push(item)))
  expect(answers.every(({ status }) => status === 'rejected')).toBe(true)
  expect(calls).toEqual([['a', 'b']])
})

test('a call that stalls does not hold up what comes after it, and is given up in the end', async () => {
  const { time, batcher } = world(async (items) => (items.includes('stuck') ? await new Promise(() => {}) : [...items]))
  const stuck = batcher.push('stuck')
  stuck.catch(() => undefined)
  await time.run(time.now, () => {})
  const next = batcher.push('next')
  let served = 0
  void next.then(() => (served = time.now))
  const from = time.now
  await time.run(from + 10_000, () => {})
  expect(served - from).toBeLessThan(100)
  await expect(stuck).rejects.toThrow('did not answer within 5000 ms')
  expect(time.pending).toBe(0)
})
