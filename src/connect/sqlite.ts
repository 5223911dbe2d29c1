import { mkdirSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { sqlite } from '../backends/sqlite/index.js'
import type { Backend } from '../core/backend.js'
import { BackendError, ConfigError } from '../core/errors.js'
import { defaultPath } from './default.js'
import { checkQuery, type StoreUrl } from './url.js'

/** `sqlite:PATH`, relative to the working directory or absolute; `sqlite:///PATH` is absolute, too. */
export function open(url: StoreUrl): Backend {
  checkQuery(url, [])
  if (url.hosts.length > 0) {
    throw new ConfigError(
      "A sqlite URL has no host. Write 'sqlite:locks.db', 'sqlite:/var/lib/app/locks.db' or 'sqlite:///var/lib/app/locks.db'.",
    )
  }
  const path = url.path
  if (path === '' || path.endsWith('/')) {
    throw new ConfigError("The sqlite URL names no file. Write one such as 'sqlite:/var/lib/app/locks.db'.")
  }
  if (resolve(path) === resolveDefault()) makeDirectory(dirname(resolve(path)))
  return sqlite(path)
}

// Only the default's directory is made: any other that is missing is more likely a mistake in the path.
function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    throw new BackendError(
      `The sqlite store cannot make its directory ${path}: ${message}. Set HOLDFAST_URL to a path that can be written.`,
      {
        retryable: false,
        cause: error,
      },
    )
  }
}

function resolveDefault(): string | undefined {
  try {
    return resolve(defaultPath())
  } catch {
    // Without a home there is no default, and any path given is another.
    return undefined
  }
}
