import type { Actor } from '../actor.js'
import type { Answer } from '../contender/protocol.js'
import { within } from '../pace.js'
import type { Situation } from '../situation.js'
import type { Stage } from '../stage.js'

const PROCESSES = 5
const EACH = 10
/** Whoever is not served by then (lived, so that a busy machine may be slow) never is; those who give up do so much earlier. */
const BOUND_MS = 30_000
const WAIT_MS = 10 * BOUND_MS
/** One that asked so much earlier than another should not be served after it. */
const CLEARLY_EARLIER_MS = 150
const APART_MS = 15
/** So long does the first hold when all have asked: those who asked first have then waited for more than two seconds, after which many a recipe gives up. */
const HELD_MS = 1_700

/** Fifty wait for one lock. */
const situation: Situation = {
  name: 'fifty-waiters',
  title: '50 waiters on one lock',
  story:
    'Fifty contenders in five processes wait for one lock; when its holder lets go, each holds it for a few milliseconds. All must be served. Counted: what each hand-off costs the store, and who was served before somebody who had asked earlier.',
  async run(stage) {
    if (!stage.recipe.offers.blocking) stage.notOffered('it has no way to wait')
    const [first, waiters] = await Promise.all([stage.contender('first', { ttlMs: stage.longTtlMs }), gather(stage)])
    const lock = stage.lock()
    const held = await first.mustBeServed(lock, 'nobody else was there')
    const turns = await ask(stage, waiters, lock)
    const before = requests(waiters)
    stage.mark('note', 'the first lets go')
    await held?.release()
    const answers = await Promise.all(turns)
    report(stage, answers, requests(waiters) - before)
  },
}

async function gather(stage: Stage): Promise<Actor[]> {
  const all: Actor[] = []
  for (let process = 1; process <= PROCESSES; process += 1) {
    const owners = Array.from({ length: EACH }, (_, index) => `${process}.${index + 1}`)
    // A long ttl: what is asked here is not who is slow.
    all.push(...(await stage.contenders(owners, { ttlMs: stage.longTtlMs })))
  }
  await Promise.all(all.map(async (waiter) => await waiter.warmUp()))
  return shuffle(all, stage.random)
}

/** They ask one after another, so that there is an order to keep. */
async function ask(stage: Stage, waiters: readonly Actor[], lock: string): Promise<Promise<Answer | undefined>[]> {
  const turns: Promise<Answer | undefined>[] = []
  for (const waiter of waiters) {
    turns.push(within(BOUND_MS + 1_000, waiter.turn(lock, WAIT_MS)))
    await stage.sleep(APART_MS)
  }
  await stage.sleep(HELD_MS)
  return turns
}

function requests(waiters: readonly Actor[]): number {
  const ways = new Set(waiters.flatMap(({ ways: { proxies } }) => proxies))
  return [...ways].reduce((sum, { requests: way }) => sum + way.chunks, 0)
}

function report(stage: Stage, answers: readonly (Answer | undefined)[], cost: number): void {
  const served = answers.filter((answer): answer is Answer => answer?.answer === 'yes')
  const missing = answers.length - served.length
  if (missing > 0) {
    // What it cost, and in which order, says something only where all fifty were served.
    return stage.hang(
      `${missing} of ${answers.length} waiters gave up or were not served within ${BOUND_MS / 1000} s: they starve`,
    )
  }
  const servers = stage.rig.servers.length
  if (servers > 0) stage.fact(`${(cost / served.length / servers).toFixed(1)} requests a hand-off`)
  const passed = overtaken(served)
  stage.fact(passed === 0 ? 'first come, first served' : `${passed} of ${served.length} were passed by later ones`)
  const ms = Math.max(...served.map(({ to }) => to)) - Math.min(...served.map(({ to }) => to))
  stage.fact(`all in ${Math.round(ms)} ms`)
}

/** How many were served after somebody who asked when they stood in line already, or had at least clearly asked before. */
function overtaken(served: readonly Answer[]): number {
  return served.filter((one) => {
    const stoodAt = one.inLineAt ?? one.from + CLEARLY_EARLIER_MS
    return served.some((other) => other.from > stoodAt && other.to < one.to)
  }).length
}

function shuffle<T>(items: readonly T[], random: () => number): T[] {
  const out = [...items]
  for (let at = out.length - 1; at > 0; at -= 1) {
    const other = Math.floor(random() * (at + 1))
    ;[out[at], out[other]] = [out[other]!, out[at]!]
  }
  return out
}

export default situation
