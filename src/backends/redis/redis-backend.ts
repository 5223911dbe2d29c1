import { randomBytes } from 'node:crypto'
import type {
  BackendEvents,
  FloorBackend,
  Guarantees,
  JoinRequest,
  LeaveRequest,
  LineView,
  Origin,
  RenewRequest,
  Standing,
} from '../../core/backend.js'
import { BackendError, ConfigError } from '../../core/errors.js'
import { type LineKey, lineText } from '../../core/line.js'
import { failure } from './failure.js'
import { guarantees } from './guarantees.js'
import { hello } from './hello.js'
import { Hints } from './hints.js'
import { addRenewals, standing } from './items.js'
import { costOf, Joining } from './joining.js'
import { Keys } from './keys.js'
import { Leaving } from './leaving.js'
import { type Naming, OneMutex } from './one-mutex.js'
import { raiseFloor, readOrigin } from './origin.js'
import { isNoScript } from './run-script.js'
import { type Delivery, ScriptCaller } from './script-caller.js'
import { type Scripts, scripts } from './scripts.js'
import { earlierTickets, type Looking, names, view } from './view.js'
import type { Wire } from './wire.js'

export interface RedisOptions {
  /** What every key starts with. Default 'holdfast:'; '' shares the keys of another locker. */
  readonly prefix?: string
  /** An acquire counts only when so many replicas have it; it is undone when they do not come. Default 0. */
  readonly replicas?: number
  /** How long they may take, 4000 at most. Default 1000. */
  readonly replicaTimeoutMs?: number
}

/** Shorter than core waits for a call, and than a connection may owe an answer. */
const LONGEST_REPLICA_TIMEOUT_MS = 4_000

/** The port over Redis: every call is one script call (one for each slot on a Cluster). */
export class RedisBackend implements FloorBackend {
  readonly name: string = 'redis'
  /** As many as one script may renew; what costs more is split over several that are sent together. */
  readonly maxBatch: number = 250
  readonly worthPipelining: number = 24
  readonly guarantees: Guarantees
  readonly #connect: () => Promise<Wire> | Wire
  readonly #options: Required<RedisOptions>
  /** On which this client hears that a ticket of its own was granted. */
  #channel = ''
  #hints: Hints | undefined
  #wires: { main: Wire; join: Wire; renew: Wire } | undefined
  #keys!: Keys
  #scripts!: Scripts
  #caller!: ScriptCaller
  #oneMutex: OneMutex | undefined
  #joining!: Joining
  #leaving!: Leaving
  #closed = false

  constructor(connect: () => Promise<Wire> | Wire, cluster: boolean, options: RedisOptions) {
    const { prefix = 'holdfast:', replicas = 0, replicaTimeoutMs = 1_000 } = options
    if (!Number.isInteger(replicas) || replicas < 0)
      throw new ConfigError('`replicas` must be a whole number, 0 or more.')
    if (!Number.isInteger(replicaTimeoutMs) || replicaTimeoutMs < 1 || replicaTimeoutMs > LONGEST_REPLICA_TIMEOUT_MS) {
      throw new ConfigError(
        `\`replicaTimeoutMs\` must be a whole number from 1 to ${LONGEST_REPLICA_TIMEOUT_MS}: a call that takes longer is given up.`,
      )
    }
    if (prefix.includes('\0')) throw new ConfigError('The prefix must not have a NUL in it.')
    this.#connect = connect
    this.#options = { prefix, replicas, replicaTimeoutMs }
    this.guarantees = guarantees(cluster, replicas)
  }

  async open(events: BackendEvents): Promise<void> {
    this.#closed = false
    try {
      const main = await this.#connect()
      this.#wires = { main, join: main, renew: main }
      const { majorVersion } = await hello(main)
      this.#keys = new Keys(this.#options.prefix, main.ownPrefix, main.cluster)
      this.#scripts = scripts(majorVersion)
      this.#caller = new ScriptCaller(this.#keys, (lines) => this.#goOn(lines))
      // WAIT blocks its connection: a renewal must not stand behind a join that waits for replicas.
      if (this.#options.replicas > 0) this.#wires = { main, join: await main.another(), renew: await main.another() }
      this.#channel = this.#keys.channel(randomBytes(9).toString('base64url'))
      this.#oneMutex = new OneMutex(this.#keys, this.#scripts, this.#channel)
      const hints = new Hints(this.#keys, events, this.#options.replicas)
      this.#hints = hints
      this.#joining = new Joining(this.#caller, this.#keys, this.#scripts, this.#channel, (one) => hints.mayWait(one))
      this.#leaving = new Leaving(this.#caller, this.#keys, this.#scripts)
      await main.listen(
        this.#channel,
        (message) => hints.heard(message),
        () => {
          if (!this.#closed) hints.lookAgain()
        },
      )
      // The server may have been restarted without its data: ask at once whether the tickets still stand.
      main.onReconnect(() => {
        if (!this.#closed) events.unsure()
      })
    } catch (error) {
      await this.close()
      throw error instanceof ConfigError ? error : failure(error, 'open a connection')
    }
  }

  join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    return this.#joinOne(requests, 'hash') ?? this.#joinAll(requests)
  }

  #joinOne(requests: readonly JoinRequest[], by: Naming): Promise<Standing[]> | undefined {
    if (this.#options.replicas > 0) return undefined
    return this.#oneMutex?.take(requests, this.#open.join, by)?.then(
      (reply) => {
        const standing = this.#oneMutex!.taken(reply, requests[0]!)
        return standing === undefined ? this.#joinAll(requests) : [standing]
      },
      (error: unknown) => {
        if (by === 'text' || !isNoScript(error)) throw failure(error, 'join a line')
        return this.#joinOne(requests, 'text') ?? this.#joinAll(requests)
      },
    )
  }

  async #joinAll(requests: readonly JoinRequest[]): Promise<Standing[]> {
    const by = this.#delivery('join a line', this.#open.join)
    const drops = requests.some(({ takeover }) => takeover) ? await this.#takeovers(requests) : undefined
    const isLong = drops !== undefined || by.replicas > 0
    const answers = await (isLong ? this.#joining.inLine(requests, by, drops) : this.#joining.join(requests, by))
    if (by.replicas > 0) await this.#undoUncopied(requests, answers)
    return requests.map((request, i) => this.#stood(answers[i]!, request, by.doing))
  }

  async renew(tickets: readonly RenewRequest[]): Promise<Standing[]> {
    const by = this.#delivery('renew a ticket', this.#open.renew)
    const answers = await this.#caller.run(tickets, {
      by,
      script: this.#scripts.renew,
      // One that waits has no order yet.
      cost: (ticket) => (ticket.line.kind === 'mutex' && ticket.order !== undefined ? 1 : costOf(ticket)),
      addArguments: (some, command) => addRenewals(some, command, this.#channel),
    })
    return tickets.map((ticket, i) => this.#stood(answers[i]!, ticket, by.doing))
  }

  leave(tickets: readonly LeaveRequest[]): Promise<(boolean | BackendError)[]> {
    for (const { id } of tickets) this.#hints?.waitsNoMore(id)
    return this.#leaveOne(tickets, 'hash') ?? this.#leaveAll(tickets)
  }

  #leaveOne(tickets: readonly LeaveRequest[], by: Naming): Promise<(boolean | BackendError)[]> | undefined {
    return this.#oneMutex?.give(tickets, this.#open.main, by)?.then(
      (reply) => (this.#oneMutex!.given(reply, tickets[0]!) ? [true] : this.#leaveAll(tickets)),
      (error: unknown) => {
        if (by === 'text' || !isNoScript(error)) throw failure(error, 'leave a line')
        return this.#leaveOne(tickets, 'text') ?? this.#leaveAll(tickets)
      },
    )
  }

  // A release waits for no replica: what they lack of it lapses.
  async #leaveAll(tickets: readonly LeaveRequest[]): Promise<(boolean | BackendError)[]> {
    return await this.#leaving.leave(tickets, this.#delivery('leave a line', this.#open.main, 0))
  }

  async view(name: string): Promise<LineView[]> {
    return await this.#guarded('look at a line', () => view(this.#looking, name))
  }

  async *names(prefix: string): AsyncIterable<string> {
    try {
      yield* names(this.#looking, prefix)
    } catch (error) {
      throw failure(error, 'list the lines')
    }
  }

  async origin(): Promise<Origin> {
    return await this.#guarded('say when it started', () => readOrigin(this.#open.main, this.#keys))
  }

  async raise(floor: bigint, run: string): Promise<void> {
    await this.#guarded('raise the order', () =>
      raiseFloor(this.#open.main, this.#keys, this.#scripts.raise, floor, run),
    )
  }

  async close(): Promise<void> {
    this.#closed = true
    if (this.#wires !== undefined)
      await Promise.all([...new Set(Object.values(this.#wires))].map((wire) => wire.close()))
  }

  #delivery(doing: string, wire: Wire, replicas: number = this.#options.replicas): Delivery {
    return { doing, wire, replicas, replicaTimeoutMs: this.#options.replicaTimeoutMs }
  }

  get #open(): { main: Wire; join: Wire; renew: Wire } {
    if (this.#wires === undefined) throw new BackendError('The redis backend was not opened.', { retryable: false })
    return this.#wires
  }

  get #looking(): Looking {
    return { wire: this.#open.main, keys: this.#keys, script: this.#scripts.view }
  }

  async #guarded<Out>(doing: string, fn: () => Promise<Out>): Promise<Out> {
    try {
      return await fn()
    } catch (error) {
      throw failure(error, doing)
    }
  }

  #stood(
    answer: string | BackendError,
    request: { line: LineKey; id: string; ttlMs: number; waitTtlMs: number },
    doing: string,
  ): Standing {
    if (typeof answer !== 'string') return { state: 'failed', error: answer }
    if (answer.startsWith('?g')) return { state: 'failed', error: this.#uncopied(doing) }
    const result = standing(answer.startsWith('?') ? answer.slice(1) : answer, request, doing)
    if (result.state !== 'waiting' && result.state !== 'failed') this.#hints?.waitsNoMore(request.id)
    return result
  }

  #uncopied(doing: string): BackendError {
    const { replicas, replicaTimeoutMs } = this.#options
    const asked = replicas === 1 ? 'the replica' : `all ${replicas} replicas`
    return new BackendError(
      `Redis failed to ${doing}: not confirmed by ${asked} within ${replicaTimeoutMs} ms. Look at the replication.`,
      {
        retryable: true,
      },
    )
  }

  // Granted here but not on the replicas: a failover would not know of it, so it must not be held.
  async #undoUncopied(requests: readonly JoinRequest[], answers: readonly (string | BackendError)[]): Promise<void> {
    const undone = requests.filter((_, i) => typeof answers[i] === 'string' && answers[i].startsWith('?g'))
    if (undone.length === 0) return
    // Should this fail too, the outcome stays unknown, as its answer says; the caller's own leave follows.
    await this.leave(undone.map(({ line, id }) => ({ line, id, handle: id, keepMs: 0, tombstoneMs: 0 }))).catch(
      () => undefined,
    )
  }

  async #takeovers(requests: readonly JoinRequest[]): Promise<Map<JoinRequest, string[]>> {
    const taking = requests.filter(({ takeover }) => takeover)
    const found = await this.#guarded('look for earlier tickets', () =>
      Promise.all(taking.map((request) => earlierTickets(this.#looking, request))),
    )
    return new Map(taking.map((request, i) => [request, found[i]!]))
  }

  // A renewal of nobody makes the line's next step. Should it fail, the renewal of any waiting ticket does the same.
  #goOn(lines: LineKey[]): void {
    if (this.#closed) return
    const nobody = { id: '-', handle: '-', ttlMs: 1, waitTtlMs: 1 }
    const once = new Map(lines.map((line) => [lineText(line), line]))
    const steps = [...once.values()].map((line) => ({ ...nobody, line }))
    this.#caller
      .run(steps, {
        by: this.#delivery('go on', this.#open.main, 0),
        script: this.#scripts.renew,
        cost: (step) => costOf(step),
        addArguments: (some, command) => addRenewals(some, command, this.#channel),
      })
      .catch(() => undefined)
  }
}
