import { readFileSync } from 'node:fs'

/** A process group, by the id of the process that leads it. */
export interface ProcessGroup {
  /** Sends a signal to every process of the group; false when there is none. */
  signal(signal: NodeJS.Signals): boolean
  /** Whether any process of the group is left. */
  alive(): boolean
}

/** The process group that `pid` leads. */
export function processGroup(pid: number): ProcessGroup {
  // A group of 0 or 1 would be our own, or everything: a bug here must not become a massacre.
  if (!Number.isInteger(pid) || pid <= 1) throw new RangeError(`${pid} leads no process group of ours`)
  const send = (signal: NodeJS.Signals | 0): boolean => {
    try {
      process.kill(-pid, signal)
      return true
    } catch (error) {
      if (error instanceof Error && 'code' in error) {
        if (error.code === 'ESRCH') return false
        // It exists, but runs as somebody else now (sudo).
        if (error.code === 'EPERM') return true
      }
      throw error
    }
  }
  return { signal: send, alive: () => send(0) }
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
