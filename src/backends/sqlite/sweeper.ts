import { BackendError } from '../../core/errors.js'
import type { LockFile } from './file.js'
import type { Inbox } from './inbox.js'
import { Ledger } from './ledger.js'
import { CLOCK, now } from './process.js'

const TICK_MS = 1_000
/** Tickets looked at in one go, so that no call is held up for long. */
const PAGE = 500
const INBOX_TICKS = 60

/** Removes what nobody else would: tickets that lapsed in lines that nobody joins, old tombstones, inboxes of the dead. */
export class Sweeper {
  readonly #file: LockFile
  readonly #inbox: Inbox
  #due = 0
  #ticks = 0
  #cursor = 0

  constructor(file: LockFile, inbox: Inbox) {
    this.#file = file
    this.#inbox = inbox
  }

  /** To be called with every call: a timer of its own would do the same for clients that do nothing. */
  tick(): void {
    const time = now()
    if (time < this.#due) return
    this.#due = time + TICK_MS
    this.#file.assertInPlace()
    if (this.#ticks % INBOX_TICKS === 0) this.#inbox.sweep()
    this.#ticks += 1
    this.#sweep().catch((error: unknown) => {
      // Busy, a full disk: what is left lying now is taken next time. Anything else is a bug.
      if (!(error instanceof BackendError)) throw error
    })
  }

  async #sweep(): Promise<void> {
    const { sql } = this.#file
    const doing = 'tidying up'
    const rows = (await this.#file.attempt(doing, () => sql.page.all([this.#cursor, PAGE]))) as Row[]
    this.#cursor = rows.length < PAGE ? 0 : rows.at(-1)![0]
    const time = now()
    const lapsed = rows.filter(([, , , clock, until]) => clock !== CLOCK || until <= time)
    await this.#file.attempt(doing, () => sql.unbury.run([CLOCK, time]))
    if (lapsed.length === 0) return
    const mail = await this.#file.transaction(doing, () => {
      const ledger = new Ledger(sql, this.#inbox.name)
      ledger.read(lapsed.map(([, , line]) => line))
      ledger.readTickets(lapsed.map(([, id]) => id))
      ledger.settle(new Set())
      ledger.write()
      return ledger.mail
    })
    this.#inbox.send(mail)
  }
}

type Row = [ord: number, id: string, line: string, clock: string, until: number]
