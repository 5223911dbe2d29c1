import type { LeaveRequest } from '../../core/backend.js'
import type { BackendError } from '../../core/errors.js'
import { addGives, addLeaves, farewell } from './items.js'
import { costOf, SHORT_COST } from './joining.js'
import type { Keys } from './keys.js'
import { isPlainLeave } from './one-mutex.js'
import type { ScriptCaller } from './script-caller.js'
import type { Scripts } from './scripts.js'
import type { Wire } from './wire.js'

type Left = boolean | BackendError

/** Takes tickets off their lines: the short way where nobody waits, through the line itself elsewhere. */
export class Leaving {
  readonly #caller: ScriptCaller
  readonly #keys: Keys
  readonly #scripts: Scripts

  constructor(caller: ScriptCaller, keys: Keys, scripts: Scripts) {
    this.#caller = caller
    this.#keys = keys
    this.#scripts = scripts
  }

  /**
   * Whoever finds a mutex held tells its holder's client that the line is crowded; so it goes the long way there, and
   * grants the next in the same call. A short leave that comes too early for that is repeated the long way.
   */
  soon(tickets: readonly LeaveRequest[], wire: Wire): Promise<Left[]> {
    const isShort = (ticket: LeaveRequest): boolean => isPlainLeave(ticket) && !this.#keys.of(ticket.line).crowded
    return tickets.every(isShort) ? this.#give(tickets, wire) : this.#both(tickets, wire, isShort)
  }

  async inLine(tickets: readonly LeaveRequest[], wire: Wire): Promise<Left[]> {
    const answers = await this.#caller.run(tickets, {
      doing: 'leave a line',
      wire,
      replicas: 0,
      replicaTimeoutMs: 0,
      script: this.#scripts.leave,
      cost: costOf,
      addArguments: addLeaves,
    })
    return answers.map((answer) => (typeof answer === 'string' ? farewell(answer) : answer))
  }

  async #both(
    tickets: readonly LeaveRequest[],
    wire: Wire,
    isShort: (ticket: LeaveRequest) => boolean,
  ): Promise<Left[]> {
    const short = tickets.filter(isShort)
    const long = tickets.filter((ticket) => !short.includes(ticket))
    if (short.length === 0) return await this.inLine(long, wire)
    const [given, left] = await Promise.all([this.#give(short, wire), this.inLine(long, wire)])
    let [nextShort, nextLong] = [0, 0]
    return tickets.map((ticket) => (ticket === short[nextShort] ? given[nextShort++]! : left[nextLong++]!))
  }

  async #give(tickets: readonly LeaveRequest[], wire: Wire): Promise<Left[]> {
    const answers = await this.#caller.run(tickets, {
      doing: 'leave a line',
      wire,
      replicas: 0,
      replicaTimeoutMs: 0,
      script: this.#scripts.give,
      keys: 'ends',
      cost: () => SHORT_COST,
      addArguments: addGives,
    })
    const stayed = tickets.filter((_, i) => answers[i] === '-')
    if (stayed.length === 0) return answers.map((answer) => (typeof answer === 'string' ? true : answer))
    for (const { line } of stayed) this.#keys.of(line).crowded = true
    const left = await this.inLine(stayed, wire)
    let next = 0
    return answers.map((answer) => (answer === '-' ? left[next++]! : typeof answer === 'string' ? true : answer))
  }
}
