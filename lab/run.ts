import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Troupe } from './contender/process.js'
import { seedFor } from './random.js'
import type { Recipe, StoreName } from './recipe.js'
import { RegisterClient } from './register/client.js'
import { type Rig, startRig } from './rig.js'
import type { Evidence, Situation } from './situation.js'
import { Stage } from './stage.js'
import { judge, type Verdict } from './verdict.js'

/** One recipe in one situation, and what came of it. */
export interface Cell {
  readonly recipe: Recipe
  readonly situation: Situation
  readonly evidence: Evidence
  readonly verdict: Verdict
}

export interface RunOptions {
  readonly recipes: readonly Recipe[]
  readonly situations: readonly Situation[]
  readonly seed: number
  /** How many recipes are played at once. */
  readonly jobs: number
  readonly onCell?: (cell: Cell) => void
  /** A cell could not be played (a server did not start); the others are. Left out: the first such error ends the run. */
  readonly onTrouble?: (error: Error) => void
}

/** Plays every recipe in every situation. */
export async function runMatrix({ recipes, situations, seed, jobs, onCell, onTrouble }: RunOptions): Promise<Cell[]> {
  const cells: Cell[] = []
  // With fewer recipes than jobs, the jobs share a recipe's situations, each with servers of its own.
  const shares = recipes.length < jobs ? jobs : 1
  const queue = recipes.flatMap((recipe) => dealt(situations, shares).map((share) => ({ recipe, share })))
  const work = async (): Promise<void> => {
    const theatre = new Theatre()
    try {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        const { recipe, share } = next
        for (const situation of share) {
          const cell = await theatre.play(recipe, situation, seedFor(seed, recipe.name, situation.name), onTrouble)
          if (cell === undefined) continue
          cells.push(cell)
          onCell?.(cell)
        }
      }
    } finally {
      await theatre.close()
    }
  }
  await Promise.all(Array.from({ length: Math.min(jobs, queue.length) }, work))
  return cells
}

/** As cards are dealt: one to each in turn. */
function dealt<T>(items: readonly T[], players: number): T[][] {
  const hands = Array.from({ length: players }, (_, player) => items.filter((_item, at) => at % players === player))
  return hands.filter((hand) => hand.length > 0)
}

/** What one job needs: a register, contenders, and the store that it used last. */
class Theatre {
  #rig: Rig | undefined
  #register: { process: ChildProcess; client: RegisterClient; troupe: Troupe } | undefined
  #scenes = 0

  async play(
    recipe: Recipe,
    situation: Situation,
    seed: number,
    onTrouble: RunOptions['onTrouble'],
  ): Promise<Cell | undefined> {
    try {
      const rig = await this.#rigFor(recipe.store)
      const { client, troupe } = (this.#register ??= await startRegister())
      this.#scenes += 1
      const scene = `lab:${process.pid}:${this.#scenes}:${seed.toString(36)}`
      const stage = new Stage({ recipe, rig, troupe, register: client, seed, scene })
      const evidence = await stage.play(async (one) => await situation.run(one))
      return { recipe, situation, evidence, verdict: judge(recipe, evidence) }
    } catch (error) {
      const trouble = new Error(`${recipe.name} × ${situation.name} (seed ${seed}) could not be played.`, {
        cause: error,
      })
      if (onTrouble === undefined) throw trouble
      onTrouble(trouble)
      // Whatever state the servers are in now: the next cell gets new ones.
      await this.#rig?.stop()
      this.#rig = undefined
      return undefined
    }
  }

  async close(): Promise<void> {
    await this.#rig?.stop()
    await this.#register?.troupe.end()
    this.#register?.client.close()
    this.#register?.process.kill()
  }

  async #rigFor(store: StoreName): Promise<Rig> {
    if (this.#rig?.store === store) return this.#rig
    await this.#rig?.stop()
    this.#rig = undefined
    this.#rig = await startRig(store)
    return this.#rig
  }
}

async function startRegister(): Promise<{ process: ChildProcess; client: RegisterClient; troupe: Troupe }> {
  const main = fileURLToPath(new URL('./register/main.js', import.meta.url))
  const child = spawn(process.execPath, [main], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  const port = Number(line)
  return { process: child, client: new RegisterClient(port), troupe: new Troupe(port) }
}
