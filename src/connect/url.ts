import { ConfigError } from '../core/errors.js'

/** A store's URL taken apart. Unlike `URL` it may name several hosts: `etcd://a:2379,b:2379/prefix?ttl=5`. */
export interface StoreUrl {
  /** With the colon: 'redis:'. */
  readonly scheme: string
  readonly hosts: readonly { readonly host: string; readonly port?: number }[]
  readonly user?: string
  readonly password?: string
  /** Decoded, as written: '/0', '/locks' or, without hosts, 'relative/file.db'. */
  readonly path: string
  readonly query: URLSearchParams
  /** The whole text, secrets included: for a client library, never for a message. */
  readonly text: string
}

/** Takes a store's URL apart. The text is never shown: it may hold a password. */
export function parseStoreUrl(text: string): StoreUrl {
  const match = /^([a-z][a-z0-9+.-]*:)(?:\/\/([^/?#]*))?([^?#]*)(?:\?([^#]*))?$/i.exec(text)
  if (match === null) {
    throw new ConfigError(
      "That is not a store's URL. Write one such as 'sqlite:/var/lib/app/locks.db' or 'redis://localhost:6379'.",
    )
  }
  const [, scheme = '', authority = '', path = '', query = ''] = match
  const at = authority.lastIndexOf('@')
  const credentials = at === -1 ? '' : authority.slice(0, at)
  const colon = credentials.indexOf(':')
  const user = decode(colon === -1 ? credentials : credentials.slice(0, colon))
  const password = colon === -1 ? '' : decode(credentials.slice(colon + 1))
  const hosts = authority.slice(at + 1)
  return {
    scheme: scheme.toLowerCase(),
    hosts: hosts === '' ? [] : hosts.split(',').map(parseHost),
    ...(user === '' ? {} : { user }),
    ...(password === '' ? {} : { password }),
    path: decode(path),
    query: new URLSearchParams(query),
    text,
  }
}

/** Refuses query parameters that the store does not know: a typo must not be an option silently unset. */
export function checkQuery(url: StoreUrl, known: readonly string[]): void {
  for (const key of url.query.keys()) {
    if (known.includes(key)) continue
    const list = known.length === 0 ? 'It takes none.' : `Known: ${known.join(', ')}.`
    throw new ConfigError(`The ${url.scheme}// URL has an unknown parameter '${key}'. ${list}`)
  }
}

function parseHost(text: string): { host: string; port?: number } {
  const match = /^(\[[^\]]+\]|[^:]*)(?::(\d+))?$/.exec(text)
  const port = match?.[2] === undefined ? undefined : Number(match[2])
  if (match === null || match[1] === '' || (port !== undefined && (port < 1 || port > 65_535))) {
    throw new ConfigError("A host in the store's URL is not of the form HOST or HOST:PORT (1 to 65535).")
  }
  const host = match[1]!.replace(/^\[|\]$/g, '')
  return port === undefined ? { host } : { host, port }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new ConfigError(
      "The store's URL has a '%' that is not the start of an escape. Write '%25' for a percent sign.",
    )
  }
}
