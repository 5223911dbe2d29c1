import type { Recipe, StoreName } from './recipe.js'
import type { Situation } from './situation.js'

/** A cell that is to be played. */
export interface Task {
  readonly recipe: Recipe
  readonly situation: Situation
}

/**
 * What is to be played next, by whom of several. Cells that share a store are played side by side on the same servers.
 * Those that break the servers come when all others of that store are done, one at a time.
 */
export class Schedule {
  #open: readonly Task[]
  readonly #playing = new Set<Task>()
  #wake: (() => void)[] = []

  constructor(tasks: readonly Task[]) {
    this.#open = [...tasks.filter((task) => !isDisruptive(task)), ...tasks.filter(isDisruptive)]
  }

  /** Waits where what is left must wait; undefined when nothing is left. */
  async take(): Promise<Task | undefined> {
    while (this.#open.length > 0) {
      const task = this.#open.find((one) => this.#mayPlay(one))
      if (task !== undefined) {
        this.#open = this.#open.filter((one) => one !== task)
        this.#playing.add(task)
        return task
      }
      await new Promise<void>((resolve) => this.#wake.push(resolve))
    }
    return undefined
  }

  /** True when it was the last of its store. */
  done(task: Task): boolean {
    this.#playing.delete(task)
    for (const wake of this.#wake.splice(0)) wake()
    return ![...this.#open, ...this.#playing].some((one) => storeOf(one) === storeOf(task))
  }

  /** The store that is needed after this one, so that it can be made ready meanwhile. */
  storeAfter(store: StoreName): StoreName | undefined {
    return this.#open.map(storeOf).find((other) => other !== store)
  }

  #mayPlay(task: Task): boolean {
    const others = [...this.#playing].filter((one) => storeOf(one) === storeOf(task))
    if (others.some(isDisruptive)) return false
    if (!isDisruptive(task)) return true
    const waiting = this.#open.some((one) => storeOf(one) === storeOf(task) && !isDisruptive(one))
    return others.length === 0 && !waiting
  }
}

function isDisruptive({ situation }: Task): boolean {
  return situation.breaksServers === true
}

function storeOf({ recipe }: Task): StoreName {
  return recipe.store
}
