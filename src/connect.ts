import { defaultUrl } from './connect/default.js'
import type { Backend } from './core/backend.js'
import { ConfigError } from './core/errors.js'
import { Holdfast, type HoldfastOptions } from './core/holdfast.js'

/** Makes a backend from a URL. One file a store; the optional client libraries are imported there and nowhere else. */
export interface Opener {
  open(url: URL): Promise<Backend> | Backend
}

/** The stores by the scheme of their URL. */
const OPENERS: Record<string, () => Promise<Opener>> = {
  'memory:': () => import('./connect/memory.js'),
}

/**
 * Connects to a store by its URL: the one given, else HOLDFAST_URL, else the embedded default,
 * a SQLite file in the user's state directory.
 */
export async function connect(url?: string, options: HoldfastOptions = {}): Promise<Holdfast> {
  const client = new Holdfast(await openBackend(url ?? process.env['HOLDFAST_URL'] ?? defaultUrl()), options)
  await client.ready()
  return client
}

/** The backend that a URL names, not yet opened. */
export async function openBackend(text: string): Promise<Backend> {
  const url = parse(text)
  const opener = OPENERS[url.protocol]
  if (opener === undefined) {
    const known = Object.keys(OPENERS).join(' ')
    throw new ConfigError(`There is no store for '${url.protocol}//…'. Known: ${known}`)
  }
  return await (await opener()).open(url)
}

function parse(text: string): URL {
  try {
    return new URL(text)
  } catch {
    // Neither the text nor the parser's own message is shown: either may hold a password.
    throw new ConfigError("That is not a store's URL. Write one such as 'sqlite:/var/lib/app/locks.db' or 'redis://localhost:6379'.")
  }
}
