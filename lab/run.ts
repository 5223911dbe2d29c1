import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Troupe } from './contender/process.js'
import { seedFor } from './random.js'
import type { Recipe, StoreName } from './recipe.js'
import { RegisterClient } from './register/client.js'
import { type Rig, startRig } from './rig.js'
import { Schedule, type Task } from './schedule.js'
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
  /** How many cells are played at once. */
  readonly jobs: number
  readonly onCell?: (cell: Cell) => void
  /** A cell could not be played (a server did not start); the others are. Left out: the first such error ends the run. */
  readonly onTrouble?: (error: Error) => void
}

/** Plays every recipe in every situation. */
export async function runMatrix({ recipes, situations, seed, jobs, onCell, onTrouble }: RunOptions): Promise<Cell[]> {
  const cells: Cell[] = []
  const tasks = byStore(recipes).flatMap((recipe) => situations.map((situation) => ({ recipe, situation })))
  const schedule = new Schedule(tasks)
  const rigs = new Rigs()
  /** Some of their servers were just restarted. */
  const disturbed = new Set<Rig>()
  const work = async (): Promise<void> => {
    const theatre = new Theatre()
    try {
      for (let task = await schedule.take(); task !== undefined; task = await schedule.take()) {
        const { recipe, situation } = task
        try {
          rigs.prepare(schedule.storeAfter(recipe.store))
          const rig = await rigs.rigFor(recipe.store)
          if (disturbed.delete(rig)) await rig.settled()
          const cell = await theatre.play(task, rig, seedFor(seed, recipe.name, situation.name))
          cells.push(cell)
          onCell?.(cell)
          if (situation.breaksServers === true) disturbed.add(rig)
        } catch (error) {
          const trouble = new Error(`${recipe.name} × ${situation.name} (seed ${seed}) could not be played.`, {
            cause: error,
          })
          if (onTrouble === undefined) throw trouble
          onTrouble(trouble)
          rigs.distrust(recipe.store)
        } finally {
          if (schedule.done(task)) await rigs.stop(recipe.store)
        }
      }
    } finally {
      await theatre.close()
    }
  }
  try {
    await Promise.all(Array.from({ length: Math.min(jobs, tasks.length) }, work))
  } finally {
    await rigs.close()
  }
  return cells
}

/** So that as few servers as possible run at the same time. */
function byStore(recipes: readonly Recipe[]): Recipe[] {
  const stores = [...new Set(recipes.map(({ store }) => store))]
  return recipes.toSorted((a, b) => stores.indexOf(a.store) - stores.indexOf(b.store))
}

/** The stores that run now, shared by all that play. */
class Rigs {
  readonly #running = new Map<StoreName, Promise<Rig>>()
  readonly #distrusted: Promise<Rig>[] = []

  async rigFor(store: StoreName): Promise<Rig> {
    const known = this.#running.get(store)
    if (known !== undefined) return await known
    const fresh = startRig(store)
    this.#running.set(store, fresh)
    return await fresh
  }

  /** Begins to start it. Whether that goes well is seen by whoever needs it. */
  prepare(store: StoreName | undefined): void {
    if (store !== undefined) this.rigFor(store).catch(() => undefined)
  }

  /** Whatever state its servers are in now: later cells get new ones; those that use them may finish. */
  distrust(store: StoreName): void {
    const rig = this.#running.get(store)
    if (rig !== undefined) this.#distrusted.push(rig)
    this.#running.delete(store)
  }

  async stop(store: StoreName): Promise<void> {
    const rig = this.#running.get(store)
    this.#running.delete(store)
    await stopped(rig)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#running.values(), ...this.#distrusted].map(stopped))
  }
}

async function stopped(starting: Promise<Rig> | undefined): Promise<void> {
  // One that could not be started has been told of by whoever needed it, and has nothing to stop.
  const rig = await starting?.catch(() => undefined)
  await rig?.stop()
}

/** What one job needs of its own: a register and contenders. */
class Theatre {
  #register: { process: ChildProcess; client: RegisterClient; troupe: Troupe } | undefined

  async play({ recipe, situation }: Task, rig: Rig, seed: number): Promise<Cell> {
    const { client, troupe } = (this.#register ??= await startRegister())
    scenes += 1
    const scene = `lab-${process.pid}-${scenes}-${seed.toString(36)}`
    const stage = new Stage({ recipe, rig, troupe, register: client, seed, scene })
    const evidence = await stage.play(async (one) => await situation.run(one))
    return { recipe, situation, evidence, verdict: judge(recipe, evidence) }
  }

  async close(): Promise<void> {
    await this.#register?.troupe.end()
    this.#register?.client.close()
    this.#register?.process.kill()
  }
}

let scenes = 0

async function startRegister(): Promise<{ process: ChildProcess; client: RegisterClient; troupe: Troupe }> {
  const main = fileURLToPath(new URL('./register/main.js', import.meta.url))
  const child = spawn(process.execPath, [main], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  const port = Number(line)
  return { process: child, client: new RegisterClient(port), troupe: new Troupe(port) }
}
