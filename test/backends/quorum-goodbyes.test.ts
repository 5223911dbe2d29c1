import { expect, test } from 'vitest'
import { Node } from '../../src/backends/quorum/node.js'
import type { FloorBackend, JoinRequest, LeaveRequest, Standing } from '../../src/core/backend.js'
import { BackendError } from '../../src/core/errors.js'

type Left = (boolean | BackendError)[]

interface Asked {
  readonly answer: Promise<Left>
  readonly resolve: (left: Left) => void
  readonly reject: (error: BackendError) => void
}

function asked(): Asked {
  let [resolve, reject]: [Asked['resolve'], Asked['reject']] = [() => {}, () => {}]
  const answer = new Promise<Left>((...both) => ([resolve, reject] = both))
  return { answer, resolve, reject }
}

/** A server that refuses whoever asks, and answers a leave when it is told to: what it says is a ticket of ours or not. */
async function refusing() {
  const leaves: Asked[] = []
  const backend = {
    maxBatch: 100,
    open: () => Promise.resolve(),
    close: () => Promise.resolve(),
    origin: () => Promise.resolve({ run: 'r', upMs: 3_600_000, last: 1n, clock: 1n, learnt: true }),
    join: (requests: readonly JoinRequest[]) => Promise.resolve(requests.map((): Standing => ({ state: 'refused' }))),
    leave: () => {
      leaves.push(asked())
      return leaves.at(-1)!.answer
    },
  } as unknown as FloorBackend
  const node = new Node(backend, 'a', {
    maxTtlMs: 1_000,
    floorOfOthers: () => Promise.resolve(0n),
    twinOf: () => undefined,
    lost: () => undefined,
  })
  await node.start()
  const said = async (...names: string[]): Promise<string[]> => {
    const requests = names.map((name) => ({ line: { kind: 'mutex', name } }) as JoinRequest)
    return (await node.join(requests)).map(({ state }) => state)
  }
  return { node, leaves, said }
}

const leave = (name: string): LeaveRequest => ({
  line: { kind: 'mutex', name },
  id: `of ${name}`,
  handle: `of ${name}`,
  keepMs: 0,
  tombstoneMs: 0,
})

test('a server’s no is none while a ticket of this client may stand in that line on its way out', async () => {
  const { node, leaves, said } = await refusing()
  expect(await said('x', 'y')).toEqual(['refused', 'refused'])
  const left = node.leaveAtLast([leave('x')])
  expect(await said('x', 'y')).toEqual(['failed', 'refused'])
  leaves[0]!.resolve([true])
  await left
  expect(await said('x', 'y')).toEqual(['refused', 'refused'])
  await node.close()
})

test('nor while a leave is owed that was not confirmed', async () => {
  const { node, leaves, said } = await refusing()
  const left = node.leaveAtLast([leave('x')])
  leaves[0]!.reject(new BackendError('cut', { retryable: true }))
  await left
  // It is told first, and its answer is not there yet.
  expect(await said('x', 'y')).toEqual(['failed', 'refused'])
  leaves[1]!.resolve([false])
  await leaves[1]!.answer
  await new Promise((resolve) => setImmediate(resolve))
  expect(await said('x', 'y')).toEqual(['refused', 'refused'])
  await node.close()
})
