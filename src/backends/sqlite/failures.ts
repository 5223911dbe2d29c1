import { type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { BackendError } from '../../core/errors.js'

/** The code that SQLite gave to an error ('SQLITE_BUSY' …); '' for any other error. */
export function sqliteCode(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : ''
  return typeof code === 'string' && code.startsWith('SQLITE_') ? code : ''
}

/** Somebody else is writing at this moment. */
export function isBusy(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED)/.test(sqliteCode(error))
}

/** What went wrong with the file, and what to do about it. The path is no secret: it is what people need to know. */
export function failure(path: string, doing: string, error: unknown): BackendError {
  if (error instanceof BackendError) return error
  const code = sqliteCode(error)
  for (const [pattern, retryable, text] of KNOWN) {
    if (pattern.test(code)) return say(path, doing, text, retryable, error)
  }
  const message = error instanceof Error ? error.message : String(error)
  return say(path, doing, `${message}${code === '' ? '' : ` (${code})`}.`, false, error)
}

/** Why a file could not be opened: SQLite only says that it could not. */
export function openFailure(path: string, error: unknown): BackendError {
  if (error instanceof BackendError) return error
  const doing = 'opening it'
  if (sqliteCode(error) !== '' && sqliteCode(error) !== 'SQLITE_CANTOPEN') return failure(path, doing, error)
  const folder = dirname(path)
  const parent = stat(folder)
  if (parent === undefined) {
    return say(
      path,
      doing,
      `the directory ${folder} does not exist. Make it first (mkdir -p), or correct the path.`,
      false,
      error,
    )
  }
  if (!parent.isDirectory()) return say(path, doing, `${folder} is not a directory. Correct the path.`, false, error)
  if (stat(path)?.isDirectory() === true) {
    return say(path, doing, 'that is a directory. Name a file in it, such as locks.db.', false, error)
  }
  const text = `the file, or the directory it is in, cannot be read and written by this user. ${RIGHTS}`
  return say(path, doing, text, false, error)
}

const RIGHTS = 'Give this user write access to both (SQLite makes files beside the database), or choose another path.'

const KNOWN: readonly (readonly [pattern: RegExp, retryable: boolean, text: string])[] = [
  [
    /^SQLITE_(BUSY|LOCKED)/,
    true,
    'another process keeps the file locked. If it stays so, a process was stopped while it was writing: find it with fuser or lsof.',
  ],
  [/^SQLITE_FULL|^SQLITE_IOERR_SHMSIZE/, false, 'the disk is full. Free some space; nothing was changed.'],
  [
    /^SQLITE_(READONLY|PERM|AUTH|CANTOPEN)/,
    false,
    `the file, or the directory it is in, is read-only for this user. ${RIGHTS}`,
  ],
  [/^SQLITE_NOTADB/, false, 'that is not a SQLite database. Give Holdfast a file of its own.'],
  [
    /^SQLITE_CORRUPT/,
    false,
    'the file is corrupt. Stop every process that uses it and delete it (with its -wal and -shm): it holds only locks. Fences then start again from 1.',
  ],
  [/^SQLITE_IOERR/, false, 'the disk reported an input/output error. Look at the system log.'],
]

function say(path: string, doing: string, text: string, retryable: boolean, cause: unknown): BackendError {
  return new BackendError(`The sqlite store ${path} failed while ${doing}: ${text}`, { retryable, cause })
}

function stat(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}
