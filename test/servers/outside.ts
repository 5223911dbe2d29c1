import type { Server } from './process.js'

/** A server that somebody else runs: it can be used, but neither stopped nor broken. */
export function outsideServer(url: string, defaultPort: number): Server {
  const { hostname, port } = new URL(url)
  const refuse = (): never => {
    throw new Error(
      'This test stops or breaks the server, which runs outside of the tests: install it to run this test.',
    )
  }
  return {
    url,
    host: hostname,
    port: port === '' ? defaultPort : Number(port),
    pid: 0,
    directory: '',
    log: () => '',
    pause: refuse,
    resume: refuse,
    kill: refuse,
    shutdown: refuse,
    start: refuse,
    stop: async () => {},
  }
}
