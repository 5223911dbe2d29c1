import { readdirSync, readFileSync } from 'node:fs'

/** A process group, by the id of the process that leads it. */
export interface ProcessGroup {
  /** Sends a signal to every process of the group; false when there is none. */
  signal(signal: NodeJS.Signals): boolean
  /** Whether any process of the group still runs. */
  alive(): boolean
}

/** The process group that `pid` leads. */
export function processGroup(pid: number): ProcessGroup {
  // A group of 0 or 1 would be our own, or everything: a bug here must not become a massacre.
  if (!Number.isInteger(pid) || pid <= 1) throw new RangeError(`${pid} leads no process group of ours`)
  return {
    signal: (signal) => send(-pid, signal) !== 'none',
    alive: () => {
      const answer = send(-pid, 0)
      return answer === 'sent' ? runs(pid) : answer === 'not ours'
    },
  }
}

function send(target: number, signal: NodeJS.Signals | 0): 'sent' | 'none' | 'not ours' {
  try {
    process.kill(target, signal)
    return 'sent'
  } catch (error) {
    if (error instanceof Error && 'code' in error) {
      if (error.code === 'ESRCH') return 'none'
      // It exists, but runs as somebody else now (sudo).
      if (error.code === 'EPERM') return 'not ours'
    }
    throw error
  }
}

/**
 * Whether a group that exists has a process that is not just a zombie. The kernel counts those as members until they
 * are reaped, and what reaps orphans (the first process of a container) may take its time, or never do it.
 */
function runs(group: number): boolean {
  if (process.platform !== 'linux') return true
  return readdirSync('/proc').some((entry) => {
    if (!/^\d+$/.test(entry)) return false
    const fields = statFields(Number(entry))
    if (fields === undefined || Number(fields[2]) !== group) return false
    // A process whose first thread has ended looks like a zombie while its other threads work on.
    return (fields[0] !== 'Z' && fields[0] !== 'X') || Number(fields[17]) > 1
  })
}

/**
 * When a process was started, in the kernel's own ticks: with its pid, its identity on this boot. Undefined when
 * there is no such process, or no /proc to say so.
 */
export function startTime(pid: number): string | undefined {
  // The second field is the command in brackets and may hold anything, brackets and spaces included.
  return statFields(pid)?.[19]
}

/** Whether this process stands in the background of its terminal, where reading would take what is typed for the shell. */
export function inBackground(): boolean {
  const fields = statFields('self')
  const group = fields?.[2]
  const foreground = fields?.[5]
  return foreground !== undefined && foreground !== '-1' && foreground !== group
}

/** The fields of /proc/PID/stat from the third (the state) on. */
function statFields(pid: number | 'self'): string[] | undefined {
  if (process.platform !== 'linux') return undefined
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH')) {
      return undefined
    }
    throw error
  }
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}
