import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { ConfigError } from '../core/errors.js'

/** The embedded default: a SQLite file in the user's state directory, shared by all of the user's processes on this machine. */
export function defaultUrl(): string {
  return `sqlite:${defaultPath().replaceAll('\\', '/').split('/').map(encodeURIComponent).join('/')}`
}

/** Where that file is. Its directory is made by whoever opens it first. */
export function defaultPath(): string {
  return join(stateDirectory(), 'holdfast', 'locks.db')
}

function stateDirectory(): string {
  const { env, platform } = process
  if (platform === 'win32') return env['LOCALAPPDATA'] ?? join(home(), 'AppData', 'Local')
  if (platform === 'darwin') return join(home(), 'Library', 'Application Support')
  const state = env['XDG_STATE_HOME']
  // The XDG specification: a relative path in it is invalid and ignored.
  return state !== undefined && isAbsolute(state) ? state : join(home(), '.local', 'state')
}

function home(): string {
  let path = ''
  try {
    path = homedir()
  } catch {
    // No such user in the system's list, as in some containers.
  }
  if (isAbsolute(path)) return path
  throw new ConfigError(
    'This user has no home directory to keep locks in. Set HOLDFAST_URL, such as sqlite:/var/lib/app/locks.db.',
  )
}
