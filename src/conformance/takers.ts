import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { AcquireOptions } from '../core/options.js'
import type { Subject } from './case.js'

/** What can be asked of a taker. Times are nanoseconds of the machine's monotonic clock, as decimal text. */
export interface TakerCalls {
  acquire(ask: TakerAsk): { fence: string; at: string }
  tryAcquire(ask: TakerAsk): { fence: string; at: string } | null
  release(ask: { key: string }): { released: boolean; at: string }
  state(ask: { key: string }): { state: string; aborted: boolean; asserts: boolean; fence: string }
  /** Blocks the event loop, then says at once what it believes of the hold. */
  busy(ask: { ms: number; key: string }): { state: string; asserts: boolean }
  /** Adds one to the number in a file, under the lock, reading and writing in two steps. */
  bump(ask: TakerAsk & { file: string; times: number }): { fences: string[] }
  serialize(ask: { key: string }): { text: string }
  adopt(ask: { key: string; text: string }): { fence: string }
}

export interface TakerAsk {
  /** How this taker calls the hold from now on. */
  readonly key: string
  readonly name: string
  readonly mode?: 'mutex' | 'read' | 'write'
  readonly options?: Omit<AcquireOptions, 'signal' | 'within'>
}

/** A child process with a client of its own: to be asked, stopped, continued and killed. */
export interface Taker {
  readonly pid: number
  ask<K extends keyof TakerCalls>(call: K, ask: Parameters<TakerCalls[K]>[0]): Promise<ReturnType<TakerCalls[K]>>
  /** The keys whose signals have aborted, as the child reported them. */
  readonly lost: readonly string[]
  signal(signal: NodeJS.Signals): void
  kill(): Promise<void>
}

interface Reply {
  readonly id?: number
  readonly result?: unknown
  readonly error?: { code?: string; message: string }
  readonly lost?: string
}

/** Starts a taker on the subject's store. */
export async function startTaker(subject: Subject): Promise<Taker> {
  const path = subject.takerPath ?? fileURLToPath(new URL('./taker.js', import.meta.url))
  const target = subject.url === undefined ? { module: subject.module } : { url: subject.url }
  const child = fork(path, [JSON.stringify(target)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const pending = new Map<number, { resolve: (value: unknown) => void; reject: (error: unknown) => void }>()
  const lost: string[] = []
  let next = 0
  const ready = new Promise<void>((resolve, reject) => {
    child.on('message', (message: Reply) => {
      if (message.lost !== undefined) lost.push(message.lost)
      else if (message.id === undefined) resolve()
      else settle(pending, message)
    })
    child.on('exit', (code, signal) => {
      const error = new Error(`the taker ended (${signal ?? code})`)
      reject(error)
      for (const waiting of pending.values()) waiting.reject(error)
      pending.clear()
    })
  })
  await ready
  return {
    pid: child.pid!,
    lost,
    ask: (call, ask) => {
      const id = next++
      return new Promise((resolve, reject) => {
        pending.set(id, { resolve: resolve as (value: unknown) => void, reject })
        child.send({ id, call, ask }, (error) => error !== null && reject(error))
      })
    },
    signal: (signal) => void child.kill(signal),
    kill: () => killed(child),
  }
}

function settle(
  pending: Map<number, { resolve: (value: unknown) => void; reject: (error: unknown) => void }>,
  reply: Reply,
): void {
  const waiting = pending.get(reply.id!)
  pending.delete(reply.id!)
  if (reply.error === undefined) waiting?.resolve(reply.result)
  else waiting?.reject(Object.assign(new Error(reply.error.message), { code: reply.error.code }))
}

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}
