/**
 * What `holdfast run` and its guardian say to each other, over the pipe between them.
 *
 * Times are absolute, on the monotonic clock that all processes of one boot share. So a message that was
 * written before its sender was stopped, and read long after, cannot lengthen anything.
 */

/** From the CLI to the guardian. */
export type ToGuardian =
  | {
      readonly type: 'start'
      readonly command: string
      readonly args: readonly string[]
      /** What is added to the environment of the command. */
      readonly env: Readonly<Record<string, string>>
      readonly deadlineMs: number
      readonly killAfterMs: number
    }
  /** The lock was renewed: it is ours until then. `confirms` answers a `doubt`. */
  | { readonly type: 'refresh'; readonly deadlineMs: number; readonly confirms: boolean }
  /** Pass a signal on to the command's process group. */
  | { readonly type: 'signal'; readonly signal: NodeJS.Signals }
  /** The lock is gone already: every further moment of the command is one beside the next holder. */
  | { readonly type: 'kill' }

/** From the guardian to the CLI. */
export type FromGuardian =
  | { readonly type: 'ready' }
  | { readonly type: 'started'; readonly pid: number }
  | { readonly type: 'failed'; readonly code: string; readonly message: string }
  /** The machine slept: the command is frozen until the CLI has renewed the lock and says so. */
  | { readonly type: 'doubt'; readonly sleptMs: number }
  | Ended

/** The command is over, and this is how. */
export interface Ended {
  readonly type: 'ended'
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** Why the guardian stopped it; left out when it ended by itself. */
  readonly stopped?: StopReason
  /** Whether SIGKILL was needed. */
  readonly killed: boolean
  /** Whether something of its process group was still there a while after SIGKILL. */
  readonly survivors: boolean
}

/** deadline: no renewal in time; gone: the CLI said that the lock is gone; orphaned: the CLI died, or the guardian did. */
export type StopReason = 'deadline' | 'gone' | 'orphaned'

/** Milliseconds on the monotonic clock that all processes of one boot share (unlike `performance.now()`). */
export function bootMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
