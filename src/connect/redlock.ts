import { quorum } from '../backends/quorum/index.js'
import type { Backend } from '../core/backend.js'
import { durationMs } from '../core/duration.js'
import { ConfigError } from '../core/errors.js'
import { openRedis } from './redis.js'
import type { StoreUrl } from './url.js'

/** `redlock://a:6379,b:6379,c:6379/0?maxTtl=60s`: a quorum of independent Redis servers. */
export async function open(url: StoreUrl): Promise<Backend> {
  if (url.hosts.length < 3) throw new ConfigError('A redlock:// URL names at least three servers: redlock://a,b,c')
  const labels = url.hosts.map(({ host, port }) => `${host.toLowerCase()}:${port ?? 6379}`)
  const twice = labels.find((label, i) => labels.indexOf(label) !== i)
  if (twice !== undefined) {
    throw new ConfigError(`A redlock:// URL names each server once, and ${twice} is there twice: it has one voice.`)
  }
  const query = new URLSearchParams(url.query)
  const maxTtl = query.get('maxTtl')
  const nodeTimeout = query.get('nodeTimeout')
  for (const own of ['maxTtl', 'nodeTimeout']) query.delete(own)
  if (query.has('replicas'))
    throw new ConfigError("The servers of a redlock:// URL are independent: it takes no 'replicas'.")
  const backends = await Promise.all(
    url.hosts.map((host) => openRedis({ ...url, scheme: 'redis:', hosts: [host], query })),
  )
  return quorum(backends, {
    labels,
    ...(maxTtl === null ? {} : { maxTtlMs: durationMs(maxTtl, 'maxTtl') }),
    ...(nodeTimeout === null ? {} : { nodeTimeoutMs: durationMs(nodeTimeout, 'nodeTimeout') }),
  })
}
