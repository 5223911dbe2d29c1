import { type Proxy, startProxy } from '../test/servers/index.js'
import { Actor } from './actor.js'
import type { Operation } from './checker/history.js'
import type { Troupe } from './contender/process.js'
import { livedMs } from './pace.js'
import { generator, seedFor } from './random.js'
import type { Recipe } from './recipe.js'
import type { RegisterClient } from './register/client.js'
import { monotonicMs, type RegisterAnswer } from './register/register.js'
import type { Rig } from './rig.js'
import { type Evidence, type Mark, NotOffered, type Stretch } from './situation.js'

/** How a contender differs from the usual one. */
export interface ContenderOptions {
  /** Its wall clock is off by so much. */
  readonly skewMs?: number
  /** The servers that it speaks to, when not the rig's. */
  readonly to?: readonly { readonly port: number }[]
  /** Its holds last so long, when not as long as everybody's. */
  readonly ttlMs?: number
}

/** Where an operation is written down while it is under way. */
export type Note = { -readonly [Key in keyof Operation]: Operation[Key] }

export interface StageParts {
  readonly recipe: Recipe
  readonly rig: Rig
  readonly troupe: Troupe
  readonly register: RegisterClient
  readonly seed: number
  /** Makes lock names differ from cell to cell; letters, digits and dashes, so that no store has to write it otherwise. */
  readonly scene: string
}

/** One cell being played: hands out contenders, breaks things, and writes everything down. */
export class Stage {
  readonly recipe: Recipe
  readonly rig: Rig
  readonly ttlMs: number
  readonly random: () => number
  readonly notes: Note[] = []
  readonly #parts: StageParts
  readonly #actors: Actor[] = []
  readonly #proxies: Proxy[] = []
  readonly #cleanups: (() => Promise<void>)[] = []
  readonly #marks: Mark[] = []
  readonly #stretches: Stretch[] = []
  readonly #facts: string[] = []
  readonly #startedAt = monotonicMs()
  #hangs: string | undefined
  #notOffered: string | undefined
  #locks = 0
  #unseenLocks = 0
  /** How many were sent for so far. */
  #cast = 0

  constructor(parts: StageParts) {
    this.#parts = parts
    this.recipe = parts.recipe
    this.rig = parts.rig
    this.ttlMs = parts.rig.ttlMs
    this.random = generator(parts.seed)
  }

  /**
   * How long (lived) a live contender may have to wait for a lock that nobody holds any more: three ttls, and room for
   * slow servers.
   */
  get patienceMs(): number {
    return 3 * this.ttlMs + 2_000
  }

  /** How long a holder works where nothing presses: long enough to be seen in the picture, far shorter than a ttl. */
  get spellMs(): number {
    return 120 + this.random() * 60
  }

  get longTtlMs(): number {
    return this.rig.longTtlMs
  }

  /** Milliseconds since the cell began. */
  now(): number {
    return this.at(monotonicMs())
  }

  at(monotonic: number): number {
    return monotonic - this.#startedAt
  }

  /** Time as it was lived: see `pace.ts`. What bounds a wait counts in it. */
  lived(): number {
    return livedMs()
  }

  /** A lock that no other cell knows. */
  lock(): string {
    this.#locks += 1
    return `${this.#parts.scene}-${this.#locks}`
  }

  /** One that no picture shows. */
  unseenLock(): string {
    this.#unseenLocks += 1
    return `${this.#parts.scene}-unseen-${this.#unseenLocks}`
  }

  /** What a recipe calls after it is this cell's alone. */
  get space(): string {
    return this.#parts.scene.replaceAll('-', '_')
  }

  /** A contender in a process of its own, with a way to the store of its own. */
  async contender(owner: string, options: ContenderOptions = {}): Promise<Actor> {
    const [actor] = await this.contenders([owner], options)
    return actor!
  }

  /** Several contenders that share one process and one way to the store. */
  async contenders(
    owners: readonly string[],
    { skewMs = 0, to = this.rig.servers, ttlMs = this.ttlMs }: ContenderOptions = {},
  ): Promise<Actor[]> {
    const first = this.#cast
    this.#cast += owners.length
    const proxies = await Promise.all(to.map(({ port }) => startProxy({ port })))
    this.#proxies.push(...proxies)
    const process = await this.#parts.troupe.take(skewMs)
    const ways = { proxies, urls: this.rig.urls(proxies.map(({ port }) => port)) }
    const actors = owners.map((owner, index) => {
      const seed = seedFor(this.#parts.seed, owner, String(first + index))
      return new Actor(this, owner, process, ways, ttlMs, seed)
    })
    this.#actors.push(...actors)
    await Promise.all(actors.map((actor) => actor.open()))
    return actors
  }

  mark(kind: Mark['kind'], label: string, owner?: string): void {
    this.#marks.push({ at: this.now(), kind, label, ...(owner === undefined ? {} : { owner }) })
  }

  stretch(owner: string, from: number, label: string): void {
    this.#stretches.push({ owner, from, to: this.now(), label })
  }

  /** A live contender was not served; the first reason stays. */
  hang(why: string): void {
    this.#hangs ??= why
  }

  fact(text: string): void {
    this.#facts.push(text)
  }

  /** Ends the situation: the recipe has no such thing. */
  notOffered(why: string): never {
    throw new NotOffered(why)
  }

  /** To be done when the cell is over, whatever came of it. */
  afterwards(cleanup: () => Promise<void>): void {
    this.#cleanups.push(cleanup)
  }

  async sleep(ms: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, ms))
  }

  /** Plays it and gives what was seen. */
  async play(run: (stage: Stage) => Promise<void>): Promise<Evidence> {
    await this.#parts.register.ask({ do: 'reset', since: this.#startedAt })
    try {
      await run(this)
    } catch (error) {
      if (!(error instanceof NotOffered)) throw error
      this.#notOffered = error.message
    } finally {
      await this.#clear()
    }
    return this.#evidence(await this.#parts.register.ask({ do: 'tell' }))
  }

  /** Times count from the first call, not from when the processes were started. */
  #evidence(told: RegisterAnswer): Evidence {
    const zero = this.notes.reduce((first, { from }) => Math.min(first, from), this.now())
    const visits = told.visits ?? []
    return {
      seed: this.#parts.seed,
      ttlMs: this.ttlMs,
      ms: this.now() - zero,
      history: this.notes.map((note) => sinceZero(note, zero)),
      marks: this.#marks.map((mark) => ({ ...mark, at: mark.at - zero })),
      stretches: this.#stretches.map((one) => ({ ...one, from: one.from - zero, to: one.to - zero })),
      visits: visits.map(({ fence, from, to, ...visit }) => {
        const times = { from: from - zero, to: to - zero }
        return { ...visit, ...times, ...(fence === undefined ? {} : { fence: BigInt(fence) }) }
      }),
      tally: told.tally ?? { stored: 0, overlaps: 0, lostUpdates: 0, stale: 0 },
      facts: this.#facts,
      ...(this.#hangs === undefined ? {} : { hangs: this.#hangs }),
      ...(this.#notOffered === undefined ? {} : { notOffered: this.#notOffered }),
    }
  }

  async #clear(): Promise<void> {
    for (const actor of this.#actors) actor.forget()
    const processes = new Set(this.#actors.map(({ process }) => process))
    for (const proxy of this.#proxies) await proxy.heal()
    await Promise.all([...processes].map((process) => this.#parts.troupe.giveBack(process)))
    await Promise.all(this.#proxies.map((proxy) => proxy.stop()))
    for (const cleanup of this.#cleanups) await cleanup()
  }
}

function sinceZero(note: Operation, zero: number): Operation {
  const { to, inLineAt, believedUntil } = note
  return {
    ...note,
    lock: shortName(note.lock),
    from: note.from - zero,
    ...(to === undefined ? {} : { to: to - zero }),
    ...(inLineAt === undefined ? {} : { inLineAt: inLineAt - zero }),
    ...(believedUntil === undefined ? {} : { believedUntil: believedUntil - zero }),
  }
}

/** 'lab-…-2' is 'lock 2' to readers. */
function shortName(lock: string): string {
  return `lock ${lock.slice(lock.lastIndexOf('-') + 1)}`
}
