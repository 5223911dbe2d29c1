import { BackendError } from '../../core/errors.js'
import type { LockFile } from './file.js'
import type { Inbox } from './inbox.js'
import { Ledger } from './ledger.js'
import type { Card } from './holder.js'
import { CLOCK, gone, now, ofThisBoot, processOf } from './process.js'

const TICK_MS = 1_000
/** Tickets looked at in one go, so that no call is held up for long. */
const PAGE = 500
/** Every so many ticks, clients are looked at, too. */
const THOROUGH = 60

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
    this.#file.assertInPlace()
    this.#due = time + TICK_MS
    const thorough = this.#ticks % THOROUGH === 0
    this.#ticks += 1
    if (thorough) this.#inbox.sweep()
    this.#sweep(thorough).catch((error: unknown) => {
      // Busy, a full disk: what is left lying now is taken next time. Anything else is a bug.
      if (!(error instanceof BackendError)) throw error
    })
  }

  async #sweep(thorough: boolean): Promise<void> {
    const { sql } = this.#file
    const doing = 'tidying up'
    const rows = (await this.#file.transaction(doing, () => sql.page.all([this.#cursor, PAGE]))) as Row[]
    this.#cursor = rows.length < PAGE ? 0 : rows.at(-1)![0]
    const time = now()
    const lapsed = rows.filter(([, , , clock, until]) => clock !== CLOCK || until <= time)
    await this.#file.transaction(doing, () => sql.unbury.run([CLOCK, time]))
    if (thorough) await this.#sweepClients()
    if (lapsed.length === 0) return
    const mail = await this.#file.transaction(doing, () => {
      const ledger = new Ledger(sql, NOBODY)
      ledger.read(lapsed.map(([, , line]) => line))
      ledger.readTickets(lapsed.map(([, id, line]) => ({ id, line })))
      ledger.settle(new Set())
      ledger.write()
      return ledger.mail
    })
    this.#inbox.send(mail)
  }

  // One of another boot may be alive, on another kernel. Without its row it is only woken later and shown without a name.
  async #sweepClients(): Promise<void> {
    const { sql } = this.#file
    const clients = (await this.#file.transaction('tidying up', () => sql.clients.all([]))) as [number, string][]
    for (const [key, inbox] of clients) {
      if (ofThisBoot(inbox) && !gone(processOf(inbox))) continue
      await this.#file.transaction('tidying up', () => sql.forget.run([key]))
    }
  }
}

/** Stands for no client: everyone is looked at alike. */
const NOBODY: Card = { key: 0, inbox: '', holder: { owner: '', client: '', host: '', pid: 0 } }

type Row = [ord: number, id: string, line: string, clock: string, until: number]
