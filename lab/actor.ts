import type { Proxy } from '../test/servers/index.js'
import type { ContenderProcess } from './contender/process.js'
import type { Answer, Command, Opening } from './contender/protocol.js'
import { livedMs, within } from './pace.js'
import type { Note, Stage } from './stage.js'

/** A contender's way to the store: one proxy a server, and the URLs that lead through them. */
export interface Ways {
  readonly proxies: readonly Proxy[]
  readonly urls: readonly string[]
}

/** What became of an acquire: 'late' when no answer came in time, 'died' when none ever will. */
export interface Asked {
  readonly answer: 'yes' | 'no' | 'unknown' | 'late' | 'died'
  readonly hold?: HoldHandle
  readonly error?: string
}

/** How much longer than it was told to wait a call may take before nobody listens any more. */
const OVERTIME_MS = 3_000
const OPENS_WITHIN_MS = 20_000
const WORKS_WITHIN_MS = 10_000
/** After an error. */
const ASKS_AGAIN_MS = 50
const RELEASES = 4

let nextHold = 1

/** A contender on the stage. Every call is written down with its times, as the contender's own process saw them. */
export class Actor {
  readonly owner: string
  readonly process: ContenderProcess
  readonly ways: Ways
  readonly #stage: Stage
  readonly #ttlMs: number
  readonly #seed: number
  readonly #holds = new Map<number, Note>()

  constructor(stage: Stage, owner: string, process: ContenderProcess, ways: Ways, ttlMs: number, seed: number) {
    this.#stage = stage
    this.owner = owner
    this.process = process
    this.ways = ways
    this.#ttlMs = ttlMs
    this.#seed = seed
    process.listen((event) => {
      const note = event.event === 'doubts' ? this.#holds.get(event.hold) : undefined
      if (note !== undefined && event.event === 'doubts') note.believedUntil ??= stage.at(event.at)
    })
  }

  async open(): Promise<void> {
    const { recipe, space } = this.#stage
    const opening: Opening = {
      recipe: recipe.name,
      owner: this.owner,
      urls: this.ways.urls,
      ttlMs: this.#ttlMs,
      space,
      seed: this.#seed,
    }
    const until = livedMs() + OPENS_WITHIN_MS
    for (;;) {
      const answer = await within(OPENS_WITHIN_MS, this.process.ask({ do: 'open', opening }))
      if (answer?.answer === 'yes') return
      if (answer === undefined || livedMs() >= until) {
        const why = `${answer?.error ?? 'no answer'} ${this.process.errors}`
        throw new Error(`${recipe.name} could not be opened for ${this.owner}: ${why}`)
      }
      // A busy store may not take a connection in time. What a situation is about comes after.
      await this.#stage.sleep(ASKS_AGAIN_MS)
    }
  }

  /**
   * Takes and leaves a lock that nobody else knows, unwritten: connections are opened, scripts loaded, tables made.
   * What comes after is the recipe alone.
   */
  async warmUp(): Promise<void> {
    const hold = nextHold++
    const { owner } = this
    const lock = this.#stage.unseenLock()
    const command: Command = { do: 'acquire', owner, lock, hold, waitMs: this.#stage.patienceMs }
    const answer = await within(OPENS_WITHIN_MS, this.process.ask(command))
    if (answer?.answer === 'yes') await within(OPENS_WITHIN_MS, this.process.ask({ do: 'release', owner, hold }))
  }

  /** Asks once. */
  async tryAcquire(lock: string): Promise<Asked> {
    return await this.acquire(lock, 0)
  }

  /** Waits for at most so long, as the recipe waits; asks again and again where it cannot wait. */
  async acquire(lock: string, waitMs: number): Promise<Asked> {
    const hold = nextHold++
    const note = this.#note('acquire', lock, waitMs > 0)
    this.#holds.set(hold, note)
    const command: Command = { do: 'acquire', owner: this.owner, lock, hold, waitMs }
    const answer = await within(waitMs + OVERTIME_MS, this.#answered(command, note))
    if (answer === undefined) return { answer: this.process.alive ? 'late' : 'died' }
    return {
      answer: answer.answer,
      ...(answer.error === undefined ? {} : { error: answer.error }),
      ...(answer.answer === 'yes' ? { hold: new HoldHandle(this, hold, lock) } : {}),
    }
  }

  /**
   * Must be served: nobody else is there who would be in the way for longer than a lock's own ttl.
   * An error is no answer, and whoever gave up in time asks again. Says 'hangs' for the whole cell when it is not served.
   */
  async mustBeServed(
    lock: string,
    although: string,
    patienceMs: number = this.#stage.patienceMs,
  ): Promise<HoldHandle | undefined> {
    const last = await this.askFor(lock, patienceMs)
    if (last.hold !== undefined) return last.hold
    const why = last.error === undefined ? '' : ` (${last.error})`
    this.#stage.hang(
      `${this.owner} was not served within ${(patienceMs / 1000).toFixed(1)} s, although ${although}${why}`,
    )
    return undefined
  }

  /** Asks for so long (lived), again after an error and after a no, until it is served. */
  async askFor(lock: string, forMs: number): Promise<Asked> {
    const until = livedMs() + forMs
    for (;;) {
      const last = await this.acquire(lock, Math.max(1, until - livedMs()))
      const isOver = last.answer === 'late' || last.answer === 'died' || livedMs() + ASKS_AGAIN_MS >= until
      if (last.hold !== undefined || isOver) return last
      if (last.answer === 'unknown') await this.#stage.sleep(ASKS_AGAIN_MS)
    }
  }

  /** Waits and works, and lets go: one of many. */
  async turn(lock: string, waitMs: number): Promise<Answer | undefined> {
    const note = this.#note('acquire', lock, true)
    const hold = nextHold++
    this.#holds.set(hold, note)
    const command: Command = { do: 'turn', owner: this.owner, lock, hold, waitMs }
    const answer = await within(waitMs + OVERTIME_MS, this.#answered(command, note))
    if (answer?.release !== undefined) {
      const { from, to, answer: released } = answer.release
      const release = this.#note('release', lock, false)
      Object.assign(release, { from: this.#stage.at(from), to: this.#stage.at(to), answer: released })
    }
    return answer
  }

  /** An error is no answer: it lets go again, as a program would that wants to be sure. */
  async release(hold: number, lock: string, begun?: () => void): Promise<Asked['answer']> {
    const note = this.#note('release', lock, false)
    const command: Command = { do: 'release', owner: this.owner, hold }
    let answer = await within(OVERTIME_MS, this.#answered(command, note, begun))
    for (let again = 1; again < RELEASES && answer?.answer === 'unknown'; again += 1) {
      await this.#stage.sleep(ASKS_AGAIN_MS)
      answer = await within(OVERTIME_MS, this.process.ask(command))
      if (answer === undefined) break
      note.to = this.#stage.at(answer.to)
      note.answer = answer.answer
    }
    return answer?.answer ?? (this.process.alive ? 'late' : 'died')
  }

  /** At the next step of the recipe: die there, or stop there until `goOn`. */
  async arm(at: 'die' | 'stop' | 'pass'): Promise<void> {
    await this.process.ask({ do: 'arm', owner: this.owner, at })
  }

  async goOn(): Promise<void> {
    await this.process.ask({ do: 'go' })
  }

  async kill(): Promise<void> {
    this.#loseFaith()
    this.#stage.mark('fault', 'killed (kill -9)', this.owner)
    await this.process.kill()
  }

  /** It died by itself, where it was told to. */
  died(): void {
    this.#loseFaith()
    this.#stage.mark('fault', 'dies here', this.owner)
  }

  pause(): () => void {
    const from = this.#stage.now()
    this.process.signal('SIGSTOP')
    this.process.reusable = false
    return () => {
      this.process.signal('SIGCONT')
      this.#stage.stretch(this.owner, from, 'stopped (SIGSTOP)')
    }
  }

  /** From here on, nothing that happens to it counts. */
  forget(): void {
    this.#holds.clear()
  }

  // The dead hold nothing.
  #loseFaith(): void {
    const now = this.#stage.now()
    for (const note of this.#holds.values()) note.believedUntil ??= now
  }

  #note(call: 'acquire' | 'release', lock: string, waits: boolean): Note {
    const at = { from: this.#stage.now(), answer: 'unknown' as const }
    const note: Note = { owner: this.owner, call, lock, weight: 1, capacity: 1, ...at, ...(waits ? { waits } : {}) }
    this.#stage.notes.push(note)
    return note
  }

  async #answered(command: Command, note: Note, begun?: () => void): Promise<Answer | undefined> {
    const answer = await this.process.ask(command, begun)
    if (answer === undefined) return undefined
    note.from = this.#stage.at(answer.from)
    note.to = this.#stage.at(answer.to)
    note.answer = answer.answer
    if (answer.fence !== undefined) note.fence = BigInt(answer.fence)
    if (answer.inLineAt !== undefined) note.inLineAt = this.#stage.at(answer.inLineAt)
    return answer
  }
}

/** What an actor holds, by its own view. */
export class HoldHandle {
  readonly #actor: Actor
  readonly #hold: number
  readonly #lock: string

  constructor(actor: Actor, hold: number, lock: string) {
    this.#actor = actor
    this.#hold = hold
    this.#lock = lock
  }

  async release(): Promise<Asked['answer']> {
    return await this.#actor.release(this.#hold, this.#lock)
  }

  /** Lets go, and tells the moment from which it no longer claims to hold, though the release may be long under way. */
  releaseSlowly(): { begun: Promise<void>; done: Promise<Asked['answer']> } {
    let done!: Promise<Asked['answer']>
    const begun = new Promise<void>((resolve) => {
      done = this.#actor.release(this.#hold, this.#lock, resolve)
    })
    return { begun, done }
  }

  /** Visits the register for so long (at least once), for as long as it believes. False: it no longer does. */
  async work(forMs = 0): Promise<boolean> {
    return await this.#ask(forMs, false)
  }

  /**
   * Looks, reads the register, and stops just before it writes: resolves there. `done` resolves when it has written.
   * Undefined: it no longer believed when it looked.
   */
  async workAndStop(): Promise<{ done: Promise<boolean> } | undefined> {
    const stops = this.#actor.process.stops()
    const done = this.#ask(0, true)
    const where = await Promise.race([stops, done.then(() => undefined)])
    return where === undefined ? undefined : { done }
  }

  async #ask(forMs: number, stopAfterLook: boolean): Promise<boolean> {
    const { owner, process } = this.#actor
    const command: Command = { do: 'work', owner, hold: this.#hold, forMs, stopAfterLook }
    return (await within(forMs + WORKS_WITHIN_MS, process.ask(command)))?.answer === 'yes'
  }
}
