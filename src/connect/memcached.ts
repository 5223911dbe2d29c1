import { memcached } from '../backends/memcached/index.js'
import type { Backend } from '../core/backend.js'
import { ConfigError } from '../core/errors.js'
import { checkQuery, type StoreUrl } from './url.js'

/** `memcached://a:11211,b:11211?prefix=locks:&timeout=2000`; `memcacheds:` for TLS. */
export function open(url: StoreUrl): Backend {
  checkQuery(url, ['prefix', 'timeout'])
  if (url.hosts.length === 0) throw new ConfigError('A memcached URL names a host: memcached://localhost:11211.')
  const prefix = url.query.get('prefix')
  const timeout = url.query.get('timeout')
  return memcached({
    servers: url.hosts,
    tls: url.scheme === 'memcacheds:',
    ...(url.user === undefined ? {} : { username: url.user }),
    ...(url.password === undefined ? {} : { password: url.password }),
    ...(prefix === null ? {} : { prefix }),
    ...(timeout === null ? {} : { timeoutMs: Number(timeout) }),
  })
}
