import { ensure, outsideUrl } from './install.js'
import { outsideServer } from './outside.js'
import { freePort } from './ports.js'
import { accepts, ask } from './probe.js'
import { type Server, startServer } from './process.js'
import { temporaryDirectory } from './watchdog.js'

export interface MemcachedOptions {
  /** Further arguments of memcached: ['-m', '1']. */
  readonly args?: readonly string[]
  /** It speaks TLS (`-Z`), so that it cannot be asked in plain text whether it answers. */
  readonly tls?: boolean
}

/** One memcached server. */
export async function startMemcached(options: MemcachedOptions = {}): Promise<Server> {
  const outside = outsideUrl('memcached')
  if (outside !== undefined) return outsideServer(outside, 11_211)
  const file = await ensure('memcached')
  const port = await freePort()
  const user = process.getuid?.() === 0 ? ['-u', 'root'] : []
  return await startServer({
    name: 'memcached',
    url: `memcached://127.0.0.1:${port}`,
    port,
    directory: temporaryDirectory('memcached'),
    file,
    args: ['-l', '127.0.0.1', '-p', String(port), '-U', '0', ...user, ...(options.args ?? [])],
    // One that wants a password answers with a CLIENT_ERROR, one that wants TLS closes the connection.
    ready: async () =>
      options.tls === true ? await accepts(port) : (await ask(port, 'version\r\n'))?.includes('\r\n') === true,
  })
}
