import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { zookeeper, type ZooKeeperOptions } from '../backends/zookeeper/index.js'
import type { Backend } from '../core/backend.js'
import type { Duration } from '../core/duration.js'
import { ConfigError } from '../core/errors.js'
import { checkQuery, type StoreUrl } from './url.js'

const PARAMETERS = ['session', 'acl', 'curator', 'tick', 'parents', 'tls', 'ca', 'cert', 'key', 'unfair']

/** `zookeeper://user:password@a:2181,b:2181/path?session=10s&curator=/locks`; nothing needs to be installed for it. */
export function open(url: StoreUrl): Backend {
  checkQuery(url, PARAMETERS)
  if (url.hosts.length === 0) throw new ConfigError("The URL names no host. Write 'zookeeper://localhost:2181'.")
  const { user, password, path, query } = url
  const session = query.get('session')
  const tick = query.get('tick')
  const acl = oneOf(url, 'acl', ['open', 'creator'])
  const parents = oneOf(url, 'parents', ['container', 'persistent'])
  const curator = query.get('curator')
  const tls = tlsOf(url)
  const options: ZooKeeperOptions = {
    hosts: url.hosts,
    ...(path === '' || path === '/' ? {} : { path }),
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    // A text that is no duration is refused where it is read.
    ...(session === null ? {} : { session: session as Duration }),
    ...(tick === null ? {} : { tick: tick as Duration }),
    ...(curator === null ? {} : { curator }),
    ...(acl === undefined ? {} : { acl }),
    ...(parents === undefined ? {} : { parents }),
    ...(tls === undefined ? {} : { tls }),
    unfair: oneOf(url, 'unfair', ['true', 'false']) === 'true',
  }
  return zookeeper(options)
}

function tlsOf(url: StoreUrl): ConnectionOptions | undefined {
  const files = (['ca', 'cert', 'key'] as const).filter((name) => url.query.has(name))
  if (oneOf(url, 'tls', ['true', 'false']) !== 'true') {
    if (files.length === 0) return undefined
    throw new ConfigError(`The zookeeper:// URL has '${files[0]}' but not tls=true.`)
  }
  return Object.fromEntries(files.map((name) => [name, readFile(name, url.query.get(name) ?? '')]))
}

function readFile(parameter: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    throw new ConfigError(`The file of the zookeeper:// URL's '${parameter}' cannot be read.`, { cause: error })
  }
}

function oneOf<T extends string>(url: StoreUrl, parameter: string, values: readonly T[]): T | undefined {
  const value = url.query.get(parameter)
  if (value === null) return undefined
  if ((values as readonly string[]).includes(value)) return value as T
  throw new ConfigError(`The zookeeper:// URL's '${parameter}' is one of ${values.join(', ')}.`)
}
