import { type Card, holderText } from './holder.js'
import { LineState } from './line-state.js'
import type { Mail } from './inbox.js'
import { CLOCK, gone, now } from './process.js'
import type { Statements } from './statements.js'
import { isGone, type Place, readTicket, type Ticket } from './ticket.js'

/**
 * What one transaction knows of the lines it touches, and what it is going to change in them.
 * Read in a few statements, decided in memory, written in a few statements: the cost of a batch is in
 * its calls into the library, not in its items.
 */
export class Ledger {
  /** The time of the whole transaction, read once it had the write lock, so that no later one has an earlier time. */
  readonly now: number = now()
  readonly mail: Mail[] = []
  readonly #sql: Statements
  readonly #card: Card
  readonly #lines = new Map<string, LineState>()
  readonly #tickets = new Map<string, Ticket>()
  readonly #buried = new Set<string>()
  readonly #gone = new Map<string, boolean>()
  #lastOrder = 0

  readonly #inserts = new Set<Ticket>()
  readonly #leases = new Set<Ticket>()
  readonly #changes = new Set<Ticket>()
  readonly #drops = new Set<Place>()

  constructor(sql: Statements, card: Card) {
    this.#sql = sql
    this.#card = card
  }

  /** Reads the heads of these lines. */
  read(lines: Iterable<string>): void {
    const texts = [...new Set(lines)]
    for (const text of texts) this.#lines.set(text, new LineState(text, this))
    for (const row of this.#sql.heads.all([JSON.stringify(texts)]) as unknown[][]) {
      const ticket = readTicket(row)
      this.line(ticket.line).read(ticket)
    }
    for (const text of texts) this.line(text).headWasRead()
  }

  /** Reads those of these tickets that do not stand at the head of their line, which was read. */
  readTickets(tickets: readonly { readonly line: string; readonly id: string }[]): void {
    const missing = tickets.filter((one) => !this.#tickets.has(nameOf(one))).map(({ id }) => id)
    if (missing.length === 0) return
    for (const row of this.#sql.byId.all([JSON.stringify(missing)]) as unknown[][]) this.meet(readTicket(row))
  }

  /** Reads what a join must know besides: which ids are buried, and the last order given. */
  readForJoin(tickets: readonly { readonly line: string; readonly id: string }[]): void {
    this.readTickets(tickets)
    const ids = JSON.stringify(tickets.map(({ id }) => id))
    for (const [id, until, clock] of this.#sql.buried.all([ids]) as [string, number, string][]) {
      if (clock !== CLOCK || until > this.now) this.#buried.add(id)
    }
    this.#lastOrder = Number((this.#sql.lastOrder.get([]) as unknown[])[0])
  }

  line(text: string): LineState {
    const line = this.#lines.get(text)
    if (line === undefined) throw new Error(`line ${text} was not read`)
    return line
  }

  /** The ticket with that id, if it stands in that line. */
  find(line: string, id: string): Ticket | undefined {
    const ticket = this.#tickets.get(nameOf({ line, id }))
    return ticket === undefined || this.#drops.has(ticket) ? undefined : ticket
  }

  isBuried(id: string): boolean {
    return this.#buried.has(id)
  }

  /** Takes in a ticket that was read, once; the one already known is returned. A lapsed one is dropped. */
  meet(ticket: Ticket): Ticket {
    const name = nameOf(ticket)
    const known = this.#tickets.get(name)
    if (known !== undefined) return known
    this.#tickets.set(name, ticket)
    // Another boot's clock says nothing here: from the first time it is seen, it gets one ttl on ours.
    if (ticket.clock !== CLOCK) this.lease(ticket, ticket.ttl)
    else if (ticket.until <= this.now) this.drop(ticket)
    return ticket
  }

  /** Renews tickets that wait, without reading them; those that stand as they usually do are returned, by name. */
  touch(tickets: readonly { readonly line: string; readonly id: string }[], ttl: number): Map<string, Place> {
    const ids = JSON.stringify(tickets.map(({ id }) => id))
    const rows = this.#sql.touch.all([ids, this.now, CLOCK, ttl]) as [number, string, string][]
    return new Map(rows.map(([ord, id, line]) => [nameOf({ line, id }), { ord, id, line, ttl }]))
  }

  /** Whether a ticket was read already. */
  has(ticket: { readonly line: string; readonly id: string }): boolean {
    return this.#tickets.has(nameOf(ticket))
  }

  more(line: string, after: number, count: number): Ticket[] {
    return (this.#sql.ofLine.all([line, after, count]) as unknown[][]).map(readTicket)
  }

  isDropped(ticket: Place): boolean {
    return this.#drops.has(ticket)
  }

  /** Whether all processes that a ticket names have ended; each is looked at once a transaction. */
  isGone(ticket: Ticket): boolean {
    return (
      ticket.client !== this.#card.key &&
      isGone(ticket, (process) => {
        const known = this.#gone.get(process) ?? gone(process)
        this.#gone.set(process, known)
        return known
      })
    )
  }

  /** Whether a ticket's end may come without a word from its process, other than by its lease. */
  mayDie(ticket: Ticket): boolean {
    return ticket.processes !== '' && ticket.client !== this.#card.key
  }

  nextOrder(): number {
    this.#lastOrder += 1
    return this.#lastOrder
  }

  insert(ticket: Ticket): void {
    this.#tickets.set(nameOf(ticket), ticket)
    this.#inserts.add(ticket)
  }

  lease(ticket: Ticket, ttl: number): void {
    ticket.ttl = ttl
    ticket.until = this.now + ticket.ttl
    ticket.clock = CLOCK
    this.#leases.add(ticket)
  }

  change(
    ticket: Ticket,
    to: Partial<Pick<Ticket, 'left' | 'handle' | 'client' | 'processes' | 'holder' | 'inbox'>>,
  ): void {
    Object.assign(ticket, to)
    this.#changes.add(ticket)
  }

  drop(ticket: Ticket): void {
    this.#drops.add(ticket)
    this.#lines.get(ticket.line)?.forget(ticket)
  }

  /** Drops a ticket that its client believes in, and tells the client. */
  evict(ticket: Ticket): void {
    this.drop(ticket)
    this.mail.push({ inbox: ticket.inbox, id: ticket.id })
  }

  bury(id: string, ttl: number): void {
    this.#buried.add(id)
    this.#sql.bury.run([id, ttl, this.now + ttl, CLOCK])
  }

  /**
   * The line has moved as far as it will: addresses a letter to everyone whom the rule now grants, except those
   * who are answered anyway.
   */
  settle(answered: ReadonlySet<string>): void {
    for (const line of this.#lines.values()) {
      for (const ticket of line.newlyGranted()) {
        if (!answered.has(nameOf(ticket))) this.mail.push({ inbox: ticket.inbox, id: ticket.id, order: ticket.ord })
      }
    }
  }

  /** Writes what was decided. */
  write(): void {
    const drops = [...this.#drops]
      .filter((ticket) => !this.#inserts.delete(ticket as Ticket))
      .map((ticket) => ticket.ord)
    if (drops.length > 0) this.#sql.drop.run([JSON.stringify(drops)])
    this.#writeInserts()
    const leases = [...this.#leases].filter((ticket) => !this.#drops.has(ticket))
    if (leases.length > 0) this.#sql.lease.run([JSON.stringify(leases.map((t) => [t.ord, t.ttl, t.until])), CLOCK])
    for (const t of this.#changes) {
      if (this.#drops.has(t)) continue
      this.#sql.change.run([
        t.ord,
        t.left ? 1 : 0,
        t.handle === t.id ? null : t.handle,
        t.client,
        t.processes,
        t.holder,
      ])
    }
  }

  /** How many tickets stand before each of these. Written tickets only: call it after `write`. */
  ahead(tickets: readonly Place[]): Map<Place, number> {
    const counts = new Map<Place, number>()
    const far: Place[] = []
    for (const ticket of tickets) {
      const index = this.line(ticket.line).indexOf(ticket)
      if (index >= 0) counts.set(ticket, index)
      else far.push(ticket)
    }
    if (far.length === 0) return counts
    // Each line is counted once from its head to the last of these, however many they are.
    far.sort((a, b) => a.ord - b.ord)
    const last = new Map<string, Place>()
    const spans = far.map((ticket) => {
      const from = last.get(ticket.line)?.ord ?? 0
      last.set(ticket.line, ticket)
      return [ticket.line, from, ticket.ord]
    })
    const steps = this.#sql.between.all([JSON.stringify(spans)]) as [number][]
    const sums = new Map<string, number>()
    for (const [i, ticket] of far.entries()) {
      const sum = (sums.get(ticket.line) ?? 0) + steps[i]![0]
      sums.set(ticket.line, sum)
      counts.set(ticket, sum)
    }
    return counts
  }

  #writeInserts(): void {
    if (this.#inserts.size === 0) return
    const usual = holderText(this.#card.holder)
    const rows = [...this.#inserts].map((t) => {
      const holder = t.holder === usual ? null : t.holder
      return [t.ord, t.id, t.line, t.weight, t.capacity, t.ttl, t.until, t.client, t.processes, holder]
    })
    this.#sql.insert.run([JSON.stringify(rows), CLOCK, this.now])
  }
}

/** Two lines may have a ticket of the same id. */
export function nameOf({ line, id }: { readonly line: string; readonly id: string }): string {
  return `${id} ${line}`
}
