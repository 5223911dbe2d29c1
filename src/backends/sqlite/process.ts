import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { closeSync, openSync, readFileSync, readlinkSync, readSync } from 'node:fs'
import { uptime } from 'node:os'

/**
 * Milliseconds on the monotonic clock that all processes of one boot share.
 * No step of the wall clock moves it, and it stands still while the machine sleeps, for everyone alike.
 */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/**
 * Names the clock that `now` reads: equal texts mean that times can be compared.
 * A process in a time namespace of its own has a clock of its own, and on macOS it is libuv's choice whether the
 * clock goes on while the machine sleeps: those count as other boots.
 */
export const CLOCK: string = createHash('sha256')
  .update(`${bootId()} ${link('/proc/self/ns/time')} ${process.platform === 'darwin' ? process.versions.uv : ''}`)
  .digest('hex')
  .slice(0, 12)

/** A pid says something only to those who share the namespace. Where that cannot be known, to nobody else. */
const SPACE: string =
  /\d+/.exec(link('/proc/self/ns/pid'))?.[0] ?? (process.platform === 'linux' ? randomBytes(6).toString('hex') : '0')

const UNKNOWN_START = '0'

/** This process as others can check it: boot, pid namespace, pid and start time, since pids are used again. */
export const SELF: string = processText(process.pid, look(process.pid).start)

/** Another process of this machine as text; undefined when it is gone already. */
export function identify(pid: number): string | undefined {
  const seen = look(pid)
  return exists(pid) && seen.state !== 'Z' ? processText(pid, seen.start) : undefined
}

/** The part of an inbox's name that says whose it is. */
export function processOf(inbox: string): string {
  return inbox.slice(0, inbox.lastIndexOf('.'))
}

/** Whether a text names a process that shares our clock, whatever became of it. */
export function ofThisBoot(text: string): boolean {
  return text.startsWith(`${CLOCK}.`)
}

/**
 * Whether that process has ended. "No" whenever it cannot be known: another boot or container, or a
 * platform that does not tell start times and has given the pid to someone else.
 */
export function gone(text: string): boolean {
  const [clock, space, pidText, start] = text.split('.')
  if (text === SELF || clock !== CLOCK || space !== SPACE) return false
  const pid = Number(pidText)
  // Asked of the kernel, not of /proc: with hidepid, /proc shows only one's own processes.
  if (!exists(pid)) return true
  if (start === UNKNOWN_START) return false
  const seen = look(pid)
  return seen.state === 'Z' || (seen.start !== UNKNOWN_START && seen.start !== start)
}

function processText(pid: number, start: string): string {
  return `${CLOCK}.${SPACE}.${pid}.${start}`
}

function exists(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

const page = Buffer.alloc(1024)

/** The state letter and the start time (in ticks since boot) of a process; unknown where /proc does not say. */
function look(pid: number): { state: string; start: string } {
  let text: string
  try {
    const fd = openSync(`/proc/${pid}/stat`, 'r')
    try {
      text = page.toString('latin1', 0, readSync(fd, page, 0, page.length, 0))
    } finally {
      closeSync(fd)
    }
  } catch {
    return { state: '?', start: UNKNOWN_START }
  }
  // The name in brackets may hold spaces and brackets itself; fields 3 and 22 come after the last one.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { state: fields[0] ?? '?', start: fields[19] ?? UNKNOWN_START }
}

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
  } catch {
    return otherBootId()
  }
}

// Where no boot id is to be had, the boot time stands for it. A step of the wall clock then makes two
// processes of one boot look like two boots: slower (a ttl instead of a lease's rest), never unsafe.
function otherBootId(): string {
  if (process.platform === 'darwin') {
    try {
      return execFileSync('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid'], {
        encoding: 'latin1',
        timeout: 2_000,
      }).trim()
    } catch {
      // An old macOS: as everywhere else.
    }
  }
  return `booted ${Math.round((Date.now() / 1_000 - uptime()) / 10)}`
}

function link(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
