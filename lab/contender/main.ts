import { generator } from '../random.js'
import type { Held, Locker, Recipe } from '../recipe.js'
import { RegisterClient } from '../register/client.js'
import { monotonicMs } from '../register/register.js'
import { skewClock } from './clock.js'
import type { Answer, Command, Event, Opening, Request } from './protocol.js'

/** A contender's process: does with a recipe's lock what the stage says, and says when it began, when it ended and what came of it. */

interface Contender {
  readonly locker: Locker
  armed: 'die' | 'stop' | 'pass'
  /** By lock: since when it stands in line there. */
  readonly inLine: Map<string, number>
}

interface Holding {
  readonly held: Held
  readonly lock: string
  lastLook: number
  watch: NodeJS.Timeout
}

type Outcome = Pick<Answer, 'answer' | 'fence' | 'inLineAt' | 'release' | 'visits'> & { readonly to?: number }

const LOOK_EVERY_MS = 5
const ASK_AGAIN_MS = 25
/** Between reading and writing: short, so that fifty can take their turns. */
const WORK_MS = 4
const BETWEEN_VISITS_MS = 18

const contenders = new Map<string, Contender>()
const holdings = new Map<number, Holding>()
let register: RegisterClient
let goOn: (() => void) | undefined

function say(message: Answer | Event): void {
  process.send?.(message)
}

async function carryOut(command: Command): Promise<Outcome> {
  switch (command.do) {
    case 'prepare':
      register = new RegisterClient(command.registerPort)
      skewClock(command.skewMs)
      return { answer: 'yes' }
    case 'open':
      await open(command.opening)
      return { answer: 'yes' }
    case 'arm':
      contender(command.owner).armed = command.at
      return { answer: 'yes' }
    case 'go':
      goOn?.()
      return { answer: 'yes' }
    case 'acquire':
      return await acquire(command)
    case 'release':
      return { answer: (await release(command.hold)) ? 'yes' : 'no' }
    case 'work':
      return await work(command.owner, command.hold, command.forMs, command.stopAfterLook)
    case 'turn':
      return await turn(command)
    case 'close':
      break
  }
  return await close()
}

async function open({ recipe, owner, urls, ttlMs, space, seed }: Opening): Promise<void> {
  Math.random = generator(seed)
  const file = new URL(`../recipes/${recipe}.js`, import.meta.url).href
  const found = ((await import(file)) as { default: Recipe }).default
  const inLine = new Map<string, number>()
  const locker = await found.open({
    urls,
    ttlMs,
    owner,
    space,
    now: () => Date.now(),
    inLine: (lock, stands) => (stands ? inLine.set(lock, monotonicMs()) : inLine.delete(lock)),
    step: async (label) => await step(owner, label),
  })
  contenders.set(owner, { locker, armed: 'pass', inLine })
}

async function step(owner: string, label: string): Promise<void> {
  const one = contenders.get(owner)
  const what = one?.armed ?? 'pass'
  if (one !== undefined) one.armed = 'pass'
  if (what === 'die') {
    process.kill(process.pid, 'SIGKILL')
    await new Promise(() => {})
  }
  if (what === 'stop') await stopHere(label)
}

async function stopHere(where: string): Promise<void> {
  const go = new Promise<void>((resolve) => (goOn = resolve))
  say({ event: 'stopped', where })
  await go
}

function contender(owner: string): Contender {
  const found = contenders.get(owner)
  if (found === undefined) throw new Error(`There is no contender ${owner} here.`)
  return found
}

async function acquire(command: Extract<Command, { do: 'acquire' | 'turn' }>): Promise<Outcome> {
  const { locker, inLine } = contender(command.owner)
  inLine.delete(command.lock)
  const held = await ask(locker, command.lock, command.waitMs)
  if (held === undefined) return { answer: 'no' }
  watch(command.hold, command.lock, held)
  const inLineAt = inLine.get(command.lock)
  return {
    answer: 'yes',
    ...(held.fence === undefined ? {} : { fence: held.fence.toString() }),
    ...(inLineAt === undefined ? {} : { inLineAt }),
  }
}

async function ask(locker: Locker, lock: string, waitMs: number): Promise<Held | undefined> {
  if (waitMs === 0) return await locker.tryAcquire(lock)
  if (locker.acquire !== undefined) return await locker.acquire(lock, waitMs)
  const until = monotonicMs() + waitMs
  for (;;) {
    const held = await locker.tryAcquire(lock)
    if (held !== undefined || monotonicMs() >= until) return held
    await sleep(ASK_AGAIN_MS)
  }
}

/** Looks every few milliseconds whether the holder still believes in its hold, and tells when it does not. */
function watch(hold: number, lock: string, held: Held): void {
  const holding: Holding = { held, lock, lastLook: monotonicMs(), watch: setInterval(() => look(hold), LOOK_EVERY_MS) }
  holdings.set(hold, holding)
}

function look(hold: number): boolean {
  const holding = holdings.get(hold)
  if (holding === undefined) return false
  if (holding.held.believes()) {
    holding.lastLook = monotonicMs()
    return true
  }
  clearInterval(holding.watch)
  say({ event: 'doubts', hold, at: holding.lastLook })
  return false
}

async function release(hold: number): Promise<boolean> {
  const holding = holdings.get(hold)
  if (holding === undefined) throw new Error(`There is no hold ${hold} here.`)
  // Whoever has called release no longer claims to hold.
  clearInterval(holding.watch)
  return await holding.held.release()
}

/** Visits the register again and again for so long, at least once, while it believes. */
async function work(owner: string, hold: number, forMs: number, stopAfterLook: boolean): Promise<Outcome> {
  const holding = holdings.get(hold)
  if (holding === undefined) throw new Error(`There is no hold ${hold} here.`)
  const until = monotonicMs() + forMs
  let visits = 0
  do {
    if (!look(hold)) return { answer: 'no', visits }
    const { lock, held } = holding
    const fence = held.fence === undefined ? {} : { fence: held.fence.toString() }
    const { visit } = await register.ask({ do: 'read', lock, owner, ...fence })
    if (visit === undefined) return { answer: 'no', visits }
    if (stopAfterLook) await stopHere('looked, and is about to write')
    else await sleep(WORK_MS)
    const { outcome } = await register.ask({ do: 'write', visit })
    if (outcome === 'refused') return { answer: 'no', visits }
    visits += 1
    if (forMs > 0) await sleep(BETWEEN_VISITS_MS)
  } while (monotonicMs() < until)
  return { answer: 'yes', visits }
}

async function turn(command: Extract<Command, { do: 'turn' }>): Promise<Outcome> {
  const got = await acquire(command)
  if (got.answer !== 'yes') return got
  const to = monotonicMs()
  await work(command.owner, command.hold, 0, false)
  const from = monotonicMs()
  const answer = (await release(command.hold)) ? 'yes' : 'no'
  return { ...got, to, release: { from, to: monotonicMs(), answer } }
}

async function close(): Promise<Outcome> {
  for (const { watch } of holdings.values()) clearInterval(watch)
  holdings.clear()
  const all = [...contenders.values()]
  contenders.clear()
  await Promise.allSettled(all.map(({ locker }) => locker.close()))
  return { answer: 'yes' }
}

async function sleep(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms))
}

process.on('message', (request: Request) => {
  const from = monotonicMs()
  if (request.command.do === 'release') say({ event: 'begun', id: request.id })
  carryOut(request.command).then(
    (outcome) => say({ id: request.id, from, to: monotonicMs(), ...outcome }),
    (error: unknown) => {
      const text = error instanceof Error ? error.message : String(error)
      say({ id: request.id, from, to: monotonicMs(), answer: 'unknown', error: text })
    },
  )
})
process.on('disconnect', () => process.exit(0))
