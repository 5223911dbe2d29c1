import { type Handles, type IoredisClient, type IoredisCluster, isCluster } from './ioredis-client.js'

const QUIET = new WeakSet<object>()

/** A connection of ours never keeps the process alive, and never ends it by an 'error' that nobody heard: for good. */
export function quiet(client: IoredisClient | IoredisCluster): void {
  if (QUIET.has(client)) return
  QUIET.add(client)
  // Every command in need of the connection is told by its own rejection.
  client.on('error', () => undefined)
  const unref = (): void => {
    const { stream, reconnectTimeout } = client as unknown as Handles
    stream?.unref?.()
    reconnectTimeout?.unref?.()
  }
  client.on('connect', unref)
  client.on('reconnecting', unref)
  if (isCluster(client)) {
    for (const node of client.nodes('all')) quiet(node)
    client.on('+node', (node) => quiet(node as IoredisClient))
  }
  unref()
}
