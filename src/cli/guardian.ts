/**
 * The guardian of one `holdfast run`: a process of its own, in a session of its own, that starts the command, and stops
 * it before its lock can pass on, even when the CLI was killed or stopped.
 *
 * It is the command's parent, so there is no moment at which a command runs that nobody watches: a CLI that is killed
 * before the start leaves an idle guardian, which ends; one that is killed after it leaves a guardian in charge.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { uptime } from 'node:os'
import { processGroup } from './group.js'
import { Guard, type GuardClock } from './guard.js'
import { bootMs, type FromGuardian, type ToGuardian } from './protocol.js'

const clock: GuardClock = {
  now: bootMs,
  uptime: () => uptime() * 1_000,
  after(ms, fn) {
    const timer = setTimeout(fn, ms)
    return () => clearTimeout(timer)
  },
}

let child: ChildProcess | undefined
let guard: Guard | undefined

// Whoever stops a whole service sends SIGTERM to each of its processes. The guardian is the last to go.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2', 'SIGTSTP'] as const)
  process.on(signal, () => {})

process.on('uncaughtException', () => {
  // A guardian that does not know what it is doing must not leave a command behind.
  if (child?.pid !== undefined && guard?.ended !== true) processGroup(child.pid).signal('SIGKILL')
  process.exit(70)
})

process.on('message', (message: ToGuardian) => {
  switch (message.type) {
    case 'start':
      start(message)
      break
    case 'refresh':
      guard?.refresh(message.deadlineMs, message.confirms)
      break
    case 'signal':
      guard?.signal(message.signal)
      break
    case 'kill':
      guard?.stop('gone')
      break
  }
})

process.on('disconnect', () => {
  if (guard === undefined || guard.ended) process.exit(0)
  guard.stop('orphaned')
})

report({ type: 'ready' })

function start(order: Extract<ToGuardian, { type: 'start' }>): void {
  if (bootMs() >= order.deadlineMs - order.killAfterMs) {
    finish({ type: 'failed', code: 'LATE', message: 'the lock was about to end before the command could start' })
    return
  }
  let started: ChildProcess
  try {
    started = spawn(order.command, order.args, {
      // A session and process group of its own: all that the command starts can be stopped with one signal.
      detached: true,
      stdio: 'inherit',
      env: { ...process.env, ...order.env },
    })
  } catch (error) {
    finish(failure(error))
    return
  }
  child = started
  started.on('error', (error) => {
    if (started.pid === undefined) finish(failure(error))
  })
  const pid = started.pid
  if (pid === undefined) return
  report({ type: 'started', pid })
  guard = new Guard(processGroup(pid), order, clock, (message) => {
    if (message.type === 'ended') finish(message)
    else report(message)
  })
  started.on('exit', (code, signal) => guard?.exited(code, signal))
  if (!process.connected) guard.stop('orphaned')
}

function failure(error: unknown): FromGuardian {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'UNKNOWN'
  return { type: 'failed', code, message: error instanceof Error ? error.message : String(error) }
}

function report(message: FromGuardian): void {
  // The CLI may be gone at any moment: 'disconnect' says so, and there is nobody left to tell of a failed message.
  if (process.connected) process.send?.(message, () => {})
}

function finish(message: FromGuardian): void {
  const end = (): never => process.exit(0)
  if (process.connected && process.send) process.send(message, end)
  else end()
}
