import { randomBytes } from 'node:crypto'
import {
  closeSync,
  chmodSync,
  constants,
  type FSWatcher,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  watch,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { gone, ofThisBoot, processOf, SELF } from './process.js'

/** Tells a client that a ticket of its is granted, or, without an order, that it is gone. */
export interface Mail {
  readonly inbox: string
  readonly id: string
  readonly order?: number
}

/** An inbox is emptied when so much of it was read. */
const LONGEST_BYTES = 64 * 1024
const DAY_MS = 86_400_000
const NAME = /^[0-9a-f]+(\.[0-9a-f]+){4}$/
const LETTER = /^([+-])([\w-]+)(?: (\d+))?$/

/**
 * A client's own small file beside the database, which others append to and only it watches: a release wakes
 * exactly the one who is next, where watching the database would wake everyone at every commit.
 * What comes here saves time, and may be lost: whoever waits looks by itself, too.
 */
export class Inbox {
  /** Says whose it is, so that whoever finds it can tell whether its client still lives. */
  readonly name: string = `${SELF}.${randomBytes(6).toString('hex')}`
  readonly #folder: string
  readonly #onMail: (mail: Mail) => void
  readonly #page = Buffer.allocUnsafe(8 * 1024)
  #watcher: FSWatcher | undefined
  #fd: number | undefined
  #offset = 0
  #rest = ''

  constructor(database: string, onMail: (mail: Mail) => void) {
    this.#folder = `${database}-inbox`
    this.#onMail = onMail
    try {
      this.#make(statSync(database).mode & 0o666)
    } catch {
      // No right to it, or no more watches to be had: whoever waits looks by itself, more often.
      this.close()
    }
  }

  /** Whether mail is noticed as it comes. */
  get watching(): boolean {
    return this.#watcher !== undefined
  }

  /** Delivers mail, our own by hand. */
  send(mail: readonly Mail[]): void {
    const letters = new Map<string, string>()
    for (const one of mail) {
      if (one.inbox === this.name) this.#onMail(one)
      else letters.set(one.inbox, `${letters.get(one.inbox) ?? ''}${letter(one)}`)
    }
    for (const [inbox, text] of letters) this.#append(inbox, text)
  }

  /** Removes the inboxes of clients that are gone. */
  sweep(): void {
    try {
      for (const name of readdirSync(this.#folder)) {
        if (!NAME.test(name) || name === this.name) continue
        const path = join(this.#folder, name)
        if (ofThisBoot(name) ? gone(processOf(name)) : isOld(path)) rmSync(path, { force: true })
      }
    } catch {
      // No such directory, or no right to it: what lies there harms nobody.
    }
  }

  close(): void {
    this.#watcher?.close()
    this.#watcher = undefined
    if (this.#fd === undefined) return
    closeSync(this.#fd)
    this.#fd = undefined
    rmSync(join(this.#folder, this.name), { force: true })
  }

  // Whoever may use the database may use the inboxes, and nobody else.
  #make(fileMode: number): void {
    const made = mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    const folderMode = fileMode | ((fileMode & 0o444) >> 2)
    if (made !== undefined && folderMode !== 0o700) chmodSync(this.#folder, folderMode)
    const path = join(this.#folder, this.name)
    this.#fd = openSync(path, 'wx+', fileMode)
    if (fileMode !== 0o600) chmodSync(path, fileMode)
    const watcher = watch(path, { persistent: false }, (event) => {
      // Renamed or removed: somebody tidied up too much.
      if (event === 'rename' && statSync(path, { throwIfNoEntry: false }) === undefined) this.close()
      else this.#read()
    })
    watcher.on('error', () => this.close())
    this.#watcher = watcher
  }

  #append(inbox: string, text: string): void {
    if (!NAME.test(inbox)) return
    try {
      const fd = openSync(join(this.#folder, inbox), constants.O_WRONLY | constants.O_APPEND)
      try {
        writeSync(fd, text)
      } finally {
        closeSync(fd)
      }
    } catch {
      // It has no inbox (any more), or the disk is full: it looks by itself.
    }
  }

  #read(): void {
    if (this.#fd === undefined) return
    for (;;) {
      const count = readSync(this.#fd, this.#page, 0, this.#page.length, this.#offset)
      if (count === 0) break
      this.#offset += count
      this.#rest += this.#page.toString('latin1', 0, count)
    }
    const letters = this.#rest.split('\n')
    this.#rest = letters.pop() ?? ''
    // A letter that comes between the look and the cut is lost; its ticket's own look finds out.
    if (this.#offset > LONGEST_BYTES && fstatSync(this.#fd).size === this.#offset) {
      ftruncateSync(this.#fd, 0)
      this.#offset = 0
    }
    for (const text of letters) {
      const [, sign, id, order] = LETTER.exec(text) ?? []
      if (id === undefined) continue
      this.#onMail({ inbox: this.name, id, ...(sign === '+' ? { order: Number(order) } : undefined) })
    }
  }
}

function letter(mail: Mail): string {
  return mail.order === undefined ? `-${mail.id}\n` : `+${mail.id} ${mail.order}\n`
}

// Of another boot: nobody can say whether its client lives. A day is longer than anyone reads nothing.
function isOld(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats !== undefined && Date.now() - stats.mtimeMs > DAY_MS
}
