/** What is used of a socket. */
export interface Counted {
  readonly bytesRead: number
  readonly bytesWritten: number
}

const LOOK_EVERY_MS = 5_000

/**
 * Notices a connection that owes an answer for 5 to 10 seconds: it is broken, and no call may outlive it. Every command is
 * answered, so a socket that was written to and has read nothing since says so by itself; a timer a command, as the
 * library would set, costs more than the rest of the command. One that is only listened to owes nothing and may be long
 * dead, forgotten by whatever stood between: `ask` has it owe an answer at every look.
 */
export function onSilence(
  socket: () => Counted | undefined,
  broken: () => void,
  ask: () => void = () => undefined,
): () => void {
  let heard: { socket: Counted; read: number; written: number } | undefined
  let owing = false
  const timer = setInterval(() => {
    const now = socket()
    if (now === undefined || heard?.socket !== now || heard.read !== now.bytesRead) {
      heard = now === undefined ? undefined : { socket: now, read: now.bytesRead, written: now.bytesWritten }
      owing = false
    } else if (now.bytesWritten > heard.written) {
      // Seen once, it may have been asked a moment ago; seen twice, it was asked a whole look ago.
      if (owing) broken()
      owing = !owing
    }
    ask()
  }, LOOK_EVERY_MS)
  timer.unref()
  return () => clearInterval(timer)
}
