import { closeSync, openSync, readFileSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'libsql'
import { BackendError } from '../../core/errors.js'
import { failure, isBusy, openFailure } from './failures.js'
import { CLOCK, now } from './process.js'
import { prepare, type Statements } from './statements.js'

/** 'Hold': marks the file as ours (PRAGMA application_id). */
const APPLICATION_ID = 0x486f6c64
const SCHEMA_VERSION = 1
const SCHEMA: string = readFileSync(new URL('./schema.sql', import.meta.url), 'utf8')

/**
 * A power cut may lose what was committed last, and with it orders that were given. So the order jumps on
 * every new boot, by more than can have been lost.
 */
const BOOT_JUMP = 1_000_000_000

/** Others write for well under a millisecond: first doze, then let the event loop run, then say that it is busy. */
const BUSY_MS = 50
const DOZES = 6
const DOZE_MS = 0.05
/** Nobody asks again on behalf of who only looks, and looking is in no hurry: a writer may be off the processor for a while. */
const LOOK_BUSY_MS = 2_000
/** Opening may meet nine others that do the same, or the last one closing. */
const OPEN_BUSY_MS = 5_000

/** The database file: opened with the right settings, made or checked, and written in short transactions. */
export class LockFile {
  readonly path: string
  readonly sql: Statements
  readonly #db: Database.Database
  readonly #inode: bigint

  private constructor(path: string, db: Database.Database) {
    this.path = path
    this.#db = db
    this.sql = prepare(db)
    this.#inode = inodeOf(path)
  }

  static async open(path: string): Promise<LockFile> {
    createOwnerOnly(path)
    let db: Database.Database
    try {
      // Busy at once: a time-out inside SQLite sleeps at least 1 ms, with the event loop blocked.
      db = new Database(path, { timeout: 0 })
    } catch (error) {
      throw openFailure(path, error)
    }
    try {
      await whileBusy(OPEN_BUSY_MS, () => setUp(path, db))
      return new LockFile(path, db)
    } catch (error) {
      db.close()
      throw openFailure(path, error)
    }
  }

  /** Runs `fn` in one transaction that no other writer can enter; again and again while another is in, but not for long. */
  transaction<T>(doing: string, fn: () => T): Promise<T> {
    return this.#attempt(doing, BUSY_MS, () => this.#transact(fn, always))
  }

  /** The same for a look, which is given more time. */
  look<T>(doing: string, fn: () => T): Promise<T> {
    return this.#attempt(doing, LOOK_BUSY_MS, () => this.#transact(fn, always))
  }

  /** The same, but what `fn` did is undone when it says false. */
  transactionIf(doing: string, fn: () => boolean): Promise<boolean> {
    return this.#attempt(doing, BUSY_MS, () => this.#transact(fn, (done) => done))
  }

  /** Throws when the path no longer leads to this file: those who open it now would not see our tickets. */
  assertInPlace(): void {
    if (inodeOf(this.path) === this.#inode) return
    throw new BackendError(
      `The sqlite store ${this.path} was deleted or replaced while in use, so others no longer see its locks. Restart the processes that use it.`,
      { retryable: false },
    )
  }

  close(): void {
    this.#db.close()
  }

  async #attempt<T>(doing: string, patienceMs: number, fn: () => T): Promise<T> {
    try {
      // Mostly nobody else is in: no promise, and no look at the clock, before somebody is.
      return fn()
    } catch (error) {
      if (!isBusy(error)) throw failure(this.path, doing, error)
    }
    try {
      return await whileBusy(patienceMs, fn)
    } catch (error) {
      throw failure(this.path, doing, error)
    }
  }

  // BEGIN is not a prepared statement, and nothing is read or written outside of a transaction: a prepared one that was
  // refused as busy stays half open in this library, and keeps the whole connection at what it saw then until it is run again.
  #transact<T>(fn: () => T, keep: (result: T) => boolean): T {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      const result = fn()
      this.#db.exec(keep(result) ? 'COMMIT' : 'ROLLBACK')
      return result
    } catch (error) {
      // SQLite has rolled back by itself after some errors (a full disk).
      if (this.#db.inTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
  }
}

function always(): boolean {
  return true
}

async function whileBusy<T>(patienceMs: number, fn: () => T): Promise<T> {
  const deadline = now() + patienceMs
  for (let tries = 1; ; tries += 1) {
    try {
      return fn()
    } catch (error) {
      if (!isBusy(error) || now() >= deadline) throw error
      if (tries <= DOZES) doze()
      else await sleep(1, undefined, { ref: false })
    }
  }
}

const bed = new Int32Array(new SharedArrayBuffer(4))
function doze(): void {
  Atomics.wait(bed, 0, 0, DOZE_MS)
}

// Never opens a file that exists: closing it again would drop all locks that this process has on it (POSIX).
function createOwnerOnly(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch {
    // It exists, or cannot be made: opening it says which.
  }
}

function inodeOf(path: string): bigint {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino ?? -1n
}

// Whatever may find the file busy is an `exec` here, too: see LockFile.#transact.
function setUp(path: string, db: Database.Database): void {
  // Every page that a commit touches is written whole. Tickets are small and leave soon: small pages halve the cost.
  // Has no effect once the file has content.
  db.exec('PRAGMA page_size = 1024')
  db.exec('PRAGMA journal_mode = WAL')
  // A checkpoint waits for the disk twice. A shorter log would stay in the processor's cache, but saves less than that.
  db.exec('PRAGMA wal_autocheckpoint = 4000')
  // What is written here must not be lost by a power cut: the order's jump is what makes later losses harmless.
  db.exec('PRAGMA synchronous = FULL')
  db.exec('BEGIN IMMEDIATE')
  try {
    if (value(db, 'PRAGMA journal_mode') !== 'wal') {
      throw new BackendError(
        `The sqlite store ${path} is on a file system that several processes cannot share it on (no WAL). Use a local disk.`,
        { retryable: false },
      )
    }
    checkSchema(path, db)
    noteBoot(db)
    db.exec('COMMIT')
  } finally {
    if (db.inTransaction) db.exec('ROLLBACK')
  }
  db.exec('PRAGMA synchronous = NORMAL')
}

function checkSchema(path: string, db: Database.Database): void {
  const application = value(db, 'PRAGMA application_id')
  const version = Number(value(db, 'PRAGMA user_version'))
  const empty = value(db, 'SELECT count(*) FROM sqlite_master') === 0
  if (application !== APPLICATION_ID && !(empty && application === 0 && version === 0)) {
    throw new BackendError(
      `The sqlite store ${path} is the database of another program. Give Holdfast a file of its own.`,
      {
        retryable: false,
      },
    )
  }
  if (version > SCHEMA_VERSION) {
    throw new BackendError(
      `The sqlite store ${path} was made by a newer Holdfast (schema ${version}, this one knows ${SCHEMA_VERSION}). Update this one, or use another file.`,
      { retryable: false },
    )
  }
  if (version === SCHEMA_VERSION) return
  db.exec(SCHEMA)
  db.exec(`PRAGMA application_id = ${APPLICATION_ID}`)
  db.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`)
  db.prepare("INSERT INTO facts (name, value) VALUES ('boot', ?1)").run([CLOCK])
}

// What another boot left (or another kernel that shares the file still has) ends one ttl from now.
function noteBoot(db: Database.Database): void {
  if (value(db, "SELECT value FROM facts WHERE name = 'boot'") === CLOCK) return
  db.prepare("INSERT OR REPLACE INTO facts (name, value) VALUES ('boot', ?1)").run([CLOCK])
  db.prepare("UPDATE sqlite_sequence SET seq = seq + ?1 WHERE name = 'tickets'").run([BOOT_JUMP])
  for (const table of ['tickets', 'tombstones']) {
    db.prepare(`UPDATE ${table} SET until = ?1 + ttl, clock = ?2 WHERE clock <> ?2`).run([now(), CLOCK])
  }
}

function value(db: Database.Database, sql: string): unknown {
  const row = db.prepare(sql).raw().get() as unknown[] | undefined
  return row?.[0]
}
