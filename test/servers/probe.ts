import { connect } from 'node:net'

/**
 * Connects, says something, and hands back what was answered first; undefined when nothing came in time.
 * Left empty, `say` waits for servers that speak first.
 */
export function ask(port: number, say: string | Buffer, withinMs = 1_000): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    const end = (answer?: Buffer): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.setTimeout(withinMs, () => end())
    socket.once('error', () => end())
    socket.once('close', () => resolve(undefined))
    socket.once('data', (data) => end(data))
    if (say.length > 0) socket.write(say)
  })
}

/** Whether someone listens there. */
export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    const end = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('error', () => end(false))
    socket.once('connect', () => end(true))
  })
}
