import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { onSilence } from '../../src/backends/redis/silence.js'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function watched(ask?: () => void) {
  const socket = { bytesRead: 0, bytesWritten: 0 }
  const world = { socket: socket as typeof socket | undefined, broken: 0 }
  const stop = onSilence(
    () => world.socket,
    () => void (world.broken += 1),
    ask,
  )
  return { world, socket, stop, after: (ms: number) => vi.advanceTimersByTime(ms) }
}

test('a connection that was asked and says nothing for a whole look is broken', () => {
  const { world, socket, stop, after } = watched()
  after(7_000)
  socket.bytesWritten += 10
  after(4_000)
  expect(world.broken).toBe(0)
  after(6_000)
  expect(world.broken).toBe(1)
  stop()
  socket.bytesWritten += 10
  after(60_000)
  expect(world.broken).toBe(1)
})

test('one that is idle, or slow but talking, or new, is not', () => {
  const { world, socket, stop, after } = watched()
  socket.bytesWritten += 10
  socket.bytesRead += 10
  after(60_000)
  for (let i = 0; i < 10; i += 1) {
    socket.bytesWritten += 10
    after(4_900)
    socket.bytesRead += 1
  }
  socket.bytesWritten += 10
  after(5_000)
  world.socket = { bytesRead: socket.bytesRead, bytesWritten: 500 }
  after(5_000)
  world.socket = undefined
  after(5_000)
  expect(world.broken).toBe(0)
  stop()
})

test('one that is only listened to is asked at every look, and broken once it stops answering', () => {
  let answers = true
  const { world, socket, stop, after } = watched(() => {
    socket.bytesWritten += 10
    if (answers) socket.bytesRead += 10
  })
  after(60_000)
  expect(world.broken).toBe(0)
  answers = false
  after(15_000)
  expect(world.broken).toBe(1)
  stop()
})
