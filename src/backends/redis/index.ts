import type { FloorBackend } from '../../core/backend.js'
import { ConfigError } from '../../core/errors.js'
import type { IoredisClient, IoredisCluster } from './ioredis-client.js'
import { IoredisWire } from './ioredis-wire.js'
import { slotOf } from './keys.js'
import { type NodeRedisClient, type NodeRedisCluster, NodeRedisWire } from './node-redis-wire.js'
import { RedisBackend, type RedisOptions } from './redis-backend.js'

export type { IoredisClient, IoredisCluster, NodeRedisClient, NodeRedisCluster, RedisOptions }

/** A client of ioredis or of the package `redis`: for one server, through Sentinel or for a Cluster. */
export type RedisClient = IoredisClient | IoredisCluster | NodeRedisClient | NodeRedisCluster

/** A line on Redis, through a client you already have. The client stays yours: it is neither changed nor closed. */
export function redis(client: RedisClient, options: RedisOptions = {}): FloorBackend {
  return new RedisBackend(() => wireOf(client, false), isCluster(client), options)
}

/** The same through an ioredis client that is this backend's own: connected when it opens, closed with it. */
export function ownRedis(client: IoredisClient | IoredisCluster, options: RedisOptions = {}): FloorBackend {
  const connect = async (): Promise<IoredisWire> => {
    const wire = await IoredisWire.on(client, true)
    // What went wrong (a password, a database number) is only told by an event; the promise says that it closed, or yes.
    let told: Error | undefined
    const listener = (error: unknown): void => {
      told ??= error instanceof Error ? error : new Error(String(error))
    }
    client.on('error', listener)
    try {
      await client.connect()
      if (told !== undefined) throw told
      return wire
    } catch (error) {
      await wire.close()
      throw told ?? error
    } finally {
      client.off('error', listener)
    }
  }
  return new RedisBackend(connect, isCluster(client), options)
}

async function wireOf(client: RedisClient, ours: boolean): Promise<IoredisWire | NodeRedisWire> {
  if ('call' in client) return await IoredisWire.on(client, ours)
  if ('sendCommand' in client) return new NodeRedisWire(client, slotOf, ours)
  throw new ConfigError('That is not a client of ioredis or redis.')
}

function isCluster(client: RedisClient): boolean {
  return 'masters' in client || ('isCluster' in client && client.isCluster)
}
