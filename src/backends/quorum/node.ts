import type { FloorBackend, JoinRequest, LeaveRequest, Origin, RenewRequest, Standing } from '../../core/backend.js'
import { BackendError } from '../../core/errors.js'
import { Goodbyes } from './goodbyes.js'
import { twinText } from './twins.js'

/** `uptime` is told in whole seconds. */
const UPTIME_GRAIN_MS = 1_000
const FIRST_RETRY_MS = 100
const LONGEST_RETRY_MS = 2_000
const LINGERING: Standing = {
  state: 'failed',
  error: new BackendError('an earlier ticket of this client may still stand there', { retryable: true }),
}

/**
 * One server of a quorum: keeps the connection, and knows whether its word counts.
 *
 * A server that was restarted may have forgotten a ticket that still counts on two others: {1,2,3} hold, 3 comes back
 * empty, {3,4,5} would hold too. So it counts only once it has been up for longer than any lease can last, and once
 * it has learnt from a majority of the others which orders were given.
 */
export class Node {
  readonly label: string
  readonly backend: FloorBackend
  /** How far the server's clock was ahead of ours (microseconds), and when that was seen. */
  clockLead: bigint | undefined
  /** Why it does not count now; undefined: it does. */
  unfit: string | undefined = 'it was not reached yet'
  /** The run of the server that it was last seen to lead to. */
  run: string | undefined
  readonly #options: NodeOptions
  readonly #goodbyes: Goodbyes
  /** An earlier way to the same server: that one is asked, and this one is not, or they would get in each other's way. */
  #twin: Node | undefined
  #opening: Promise<void> = Promise.resolve()
  #opened = false
  #closed = false
  #checking = false
  #again = false
  #failures = 0
  #timer: NodeJS.Timeout | undefined

  constructor(backend: FloorBackend, label: string, options: NodeOptions) {
    this.backend = backend
    this.label = label
    this.#options = options
    this.#goodbyes = new Goodbyes(backend, options.maxTtlMs)
  }

  /** Resolves when the server has been asked once, whatever it said. Goes on trying until closed. */
  async start(): Promise<void> {
    this.#closed = false
    // One that was under way when the quorum was closed, and opened again since, may still come.
    this.#opening = this.#opening.then(() => (this.#opened ? undefined : this.#open()))
    await this.#opening
    if (this.#opened) await this.check()
  }

  join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    if (!this.isAsked) return this.#notAsked()
    this.#goodbyes.tellDebts()
    const lingering = this.#goodbyes.mayLinger(requests)
    const joining = this.backend.join(requests)
    if (lingering === undefined) return joining
    // Its "no" may be to a ticket of this very client that is on its way out: that is neither yes nor no.
    return joining.then((standings) =>
      standings.map((standing, i) => (lingering[i] && standing.state === 'refused' ? LINGERING : standing)),
    )
  }

  renew(requests: readonly RenewRequest[]): Promise<Standing[]> {
    return this.isAsked ? this.backend.renew(requests) : this.#notAsked()
  }

  leave(requests: readonly LeaveRequest[]): Promise<(boolean | BackendError)[]> {
    if (!this.isAsked) return this.#notAsked()
    this.#goodbyes.tellDebts()
    return this.#goodbyes.send(requests)
  }

  /**
   * It did not confirm these leaves, and may have the tickets: it is told again ahead of whatever it is asked next, and
   * first of all when it is back.
   */
  owe(leaves: readonly LeaveRequest[]): void {
    // Nothing was sent to a server that was never reached, and its other way is told what a twin is not.
    if (this.isAsked) this.#goodbyes.owe(leaves)
  }

  /** Leaves; what is not confirmed is owed. Never rejects. */
  async leaveAtLast(requests: readonly LeaveRequest[]): Promise<readonly (boolean | BackendError)[]> {
    try {
      const answers = await this.leave(requests)
      this.owe(requests.filter((_, i) => typeof answers[i] !== 'boolean'))
      return answers
    } catch {
      this.owe(requests)
      return []
    }
  }

  get opened(): boolean {
    return this.#opened
  }

  /** Whether its server is asked this way. */
  get isAsked(): boolean {
    return this.#opened && this.#twin === undefined
  }

  /** Whether it can be asked, once the connection that is being made is there or has failed. */
  async reached(): Promise<boolean> {
    await this.#opening
    return this.#opened
  }

  async origin(): Promise<Origin> {
    const sent = performance.now()
    const origin = await this.backend.origin()
    this.clockLead = origin.clock - micros(sent)
    this.run = origin.run
    return origin
  }

  /** Finds out whether the server's word counts. */
  async check(): Promise<void> {
    if (this.#checking) {
      this.#again = true
      return
    }
    this.#checking = true
    try {
      do {
        this.#again = false
        await this.#examine()
      } while (this.#again)
      this.#failures = 0
    } catch (error) {
      this.unfit = error instanceof Error ? error.message : String(error)
      this.#later(() => void this.check())
    } finally {
      this.#checking = false
    }
  }

  /** Another leads to the same server, and counts for it. */
  isTwinOf(twin: Node): void {
    this.#yield(twin)
    void this.check()
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    if (!this.#opened) return
    this.#opened = false
    this.unfit = 'it was not reached yet'
    await this.backend.close()
  }

  async #open(): Promise<void> {
    try {
      await this.backend.open({
        granted: () => undefined,
        moved: () => undefined,
        lost: (ids) => this.#options.lost(this, ids),
        unsure: () => this.#doubt(),
      })
      if (this.#closed) return await this.backend.close()
      this.#opened = true
      this.#failures = 0
      this.#goodbyes.tellDebts()
    } catch (error) {
      this.unfit = error instanceof Error ? error.message : String(error)
      this.#later(() => void this.start())
    }
  }

  async #examine(): Promise<void> {
    const { run, upMs, learnt } = await this.origin()
    const twin = this.#options.twinOf(this)
    if (twin !== undefined) {
      this.#yield(twin)
      return this.#later(() => void this.check(), LONGEST_RETRY_MS)
    }
    this.#twin = undefined
    const fitAt = this.#options.maxTtlMs + UPTIME_GRAIN_MS
    if (upMs < fitAt) {
      this.unfit = `it was started ${Math.round(upMs / 1000)} s ago and counts only after ${Math.ceil(fitAt / 1000)} s`
      return this.#later(() => void this.check(), Math.min(fitAt - upMs, LONGEST_RETRY_MS))
    }
    if (!learnt) {
      const floor = await this.#options.floorOfOthers(this)
      await this.backend.raise(floor, run)
    }
    // A restart meanwhile has set #again, so that this is looked at once more before it counts.
    if (!this.#again) this.unfit = undefined
  }

  // The connection was broken and is there again: it may lead to another run of the server.
  #doubt(): void {
    this.unfit = 'it was out of reach'
    this.#goodbyes.tellDebtsAtOnce()
    if (this.#checking) this.#again = true
    else void this.check()
  }

  #yield(twin: Node): void {
    this.#twin = twin
    this.unfit = twinText(twin)
  }

  #notAsked(): Promise<never> {
    const why = this.#twin === undefined ? `${this.unfit}` : `does not count: ${twinText(this.#twin)}`
    return Promise.reject(new BackendError(why, { retryable: true }))
  }

  #later(fn: () => void, ms?: number): void {
    if (this.#closed) return
    this.#failures += 1
    clearTimeout(this.#timer)
    const pause = ms ?? Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(this.#failures, 10))
    this.#timer = setTimeout(fn, pause).unref()
  }
}

export interface NodeOptions {
  readonly maxTtlMs: number
  /** The highest order that a majority of the other servers knows; rejects when too few can be asked. */
  floorOfOthers(node: Node): Promise<bigint>
  /** An earlier one that leads to the same server. */
  twinOf(node: Node): Node | undefined
  lost(node: Node, ids: readonly string[]): void
}

export function micros(ms: number): bigint {
  return BigInt(Math.round(ms * 1000))
}
