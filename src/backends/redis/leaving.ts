import type { LeaveRequest } from '../../core/backend.js'
import type { BackendError } from '../../core/errors.js'
import { addGives, addLeaves, farewell } from './items.js'
import { costOf, SHORT_COST } from './joining.js'
import type { Keys } from './keys.js'
import { isPlainLeave } from './one-mutex.js'
import type { Delivery, ScriptCaller } from './script-caller.js'
import type { Scripts } from './scripts.js'
import { eachAnswered, inTwoWays } from './two-ways.js'

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
  async leave(tickets: readonly LeaveRequest[], by: Delivery): Promise<Left[]> {
    return await inTwoWays<LeaveRequest, Left>(tickets, {
      isShort: (ticket) => isPlainLeave(ticket) && !this.#keys.of(ticket.line).crowded,
      short: (some) => this.#give(some, by),
      long: (some) => this.inLine(some, by),
      doing: by.doing,
    })
  }

  async inLine(tickets: readonly LeaveRequest[], by: Delivery): Promise<Left[]> {
    const answers = await this.#caller.run(tickets, {
      by,
      script: this.#scripts.leave,
      cost: costOf,
      addArguments: addLeaves,
    })
    return answers.map((answer) => (typeof answer === 'string' ? farewell(answer) : answer))
  }

  async #give(tickets: readonly LeaveRequest[], by: Delivery): Promise<Left[]> {
    const answers = await this.#caller.run(tickets, {
      by,
      script: this.#scripts.give,
      keys: 'ends',
      cost: () => SHORT_COST,
      addArguments: addGives,
    })
    const stayed = tickets.filter((_, i) => answers[i] === '-')
    for (const { line } of stayed) this.#keys.of(line).crowded = true
    const left = stayed.length === 0 ? [] : await eachAnswered<Left>(this.inLine(stayed, by), stayed.length, by.doing)
    let next = 0
    return answers.map((answer) => {
      if (typeof answer !== 'string') return answer
      return answer === '-' ? left[next++]! : farewell(answer)
    })
  }
}
