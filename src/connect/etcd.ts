import { readFileSync } from 'node:fs'
import { etcd, type TlsOptions } from '../backends/etcd/index.js'
import type { Backend } from '../core/backend.js'
import { ConfigError } from '../core/errors.js'
import { checkQuery, type StoreUrl } from './url.js'

const TLS_FILES = ['ca', 'cert', 'key'] as const

/**
 * `etcd://user:password@a:2379,b:2379/services/locks?tls=true&ca=/etc/ssl/ca.pem`
 *
 * The path is the prefix of all keys, without its first slash and with one at its end (here `services/locks/`);
 * `prefix=` gives one that is used as it is written.
 */
export function open(url: StoreUrl): Backend {
  checkQuery(url, ['tls', ...TLS_FILES, 'servername', 'prefix'])
  if (url.hosts.length === 0) throw new ConfigError("An etcd URL names its members: 'etcd://localhost:2379'.")
  const tls = tlsOptions(url)
  const { user, password } = url
  const prefix = prefixOf(url)
  return etcd({
    hosts: url.hosts.map(({ host, port }) => {
      const name = host.includes(':') ? `[${host}]` : host
      return port === undefined ? name : `${name}:${port}`
    }),
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    ...(prefix === undefined ? {} : { prefix }),
    ...(tls === undefined ? {} : { tls }),
  })
}

function prefixOf(url: StoreUrl): string | undefined {
  const exact = url.query.get('prefix')
  const path = url.path.replace(/^\//, '')
  if (exact !== null) {
    if (path !== '') throw new ConfigError("The etcd:// URL has a path and a 'prefix': write one of them.")
    return exact
  }
  if (path === '') return undefined
  return path.endsWith('/') ? path : `${path}/`
}

function tlsOptions(url: StoreUrl): TlsOptions | undefined {
  const asked = url.query.get('tls')
  if (asked !== null && asked !== 'true' && asked !== 'false') {
    throw new ConfigError("The parameter 'tls' of the etcd:// URL is true or false.")
  }
  const given = TLS_FILES.filter((name) => url.query.has(name))
  const servername = url.query.get('servername')
  if (asked !== 'true') {
    const idle = given[0] ?? (servername === null ? undefined : 'servername')
    if (idle !== undefined) throw new ConfigError(`The etcd:// URL has '${idle}' but not 'tls=true'.`)
    return undefined
  }
  const files = Object.fromEntries(given.map((name) => [name, readFile(name, url.query.get(name) ?? '')]))
  return { ...files, ...(servername === null ? {} : { servername }) }
}

function readFile(name: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (cause) {
    throw new ConfigError(`The file that '${name}' of the etcd:// URL names cannot be read.`, { cause })
  }
}
