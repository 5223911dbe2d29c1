import type { Actor, HoldHandle } from '../actor.js'
import { within } from '../pace.js'
import type { Situation } from '../situation.js'
import type { Stage } from '../stage.js'

const ATTEMPTS = 5

/** A release that comes twice, or late, when somebody else holds already. */
const situation: Situation = {
  name: 'late-release',
  title: 'two release at once',
  story:
    'A lets go twice; then a release of A’s is late, in the network or between two steps, and arrives when B holds. It must not free B’s lock: C asks, and must be refused.',
  async run(stage) {
    const ttlMs = stage.longTtlMs
    // B and C hold for long, so that only A's release can end B's hold.
    const [patient, a, b, c] = await Promise.all([
      stage.contender('A', { ttlMs }),
      stage.contender('A'),
      stage.contender('B', { ttlMs }),
      stage.contender('C', { ttlMs }),
    ])
    await twice(stage, patient, b, c)
    await stalled(stage, a, b, c)
    if (stage.rig.servers.length > 0) await delayed(stage, a, b, c)
  },
}

/** A lets go, and once more when B holds: a clean-up that runs twice. */
async function twice(stage: Stage, a: Actor, b: Actor, c: Actor): Promise<void> {
  const lock = stage.lock()
  const held = await a.mustBeServed(lock, 'nobody else was there')
  await held?.work(stage.spellMs)
  await held?.release()
  const hold = await b.mustBeServed(lock, 'A had let go')
  await hold?.work(stage.spellMs)
  stage.mark('fault', 'lets go a second time', 'A')
  await held?.release()
  await third(stage, lock, c, hold)
  await hold?.release()
}

/** A's release stops between its two steps until B holds; where it has two. */
async function stalled(stage: Stage, a: Actor, b: Actor, c: Actor): Promise<void> {
  const lock = stage.lock()
  const stopped = await stopInRelease(a, lock)
  if (stopped === undefined) return
  const from = stage.now()
  stage.mark('fault', 'slow between two steps of its release', 'A')
  const { hold } = await b.acquire(lock, stage.patienceMs)
  stage.stretch('A', from, 'slow')
  await a.goOn()
  await stopped.releasing
  if (hold === undefined) return
  await third(stage, lock, c, hold)
  await hold.release()
}

/**
 * Undefined: it has no second step to stop before. One that finds its hold run out never gets there (a busy machine):
 * it takes the lock once more.
 */
async function stopInRelease(a: Actor, lock: string): Promise<{ releasing: Promise<unknown> } | undefined> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const held = await a.mustBeServed(lock, 'nobody else was there')
    if (held === undefined) return undefined
    await held.work()
    await a.arm('stop')
    const stops = a.process.stops()
    const releasing = held.release()
    const answer = await Promise.race([stops.then(() => 'stopped' as const), releasing])
    if (answer === 'stopped') return { releasing }
    await a.arm('pass')
    if (answer === 'yes') return undefined
  }
  return undefined
}

/** A's release is under way for so long that B holds when it arrives. */
async function delayed(stage: Stage, a: Actor, b: Actor, c: Actor): Promise<void> {
  const lock = stage.lock()
  const held = await a.mustBeServed(lock, 'nobody else was there')
  await held?.work()
  for (const proxy of a.ways.proxies) proxy.requests.fault = 'hold'
  stage.mark('fault', 'its release is late', 'A')
  const from = stage.now()
  const releasing = held?.releaseSlowly()
  await releasing?.begun
  const { hold } = await b.acquire(lock, 3 * stage.ttlMs)
  for (const proxy of a.ways.proxies) await proxy.heal()
  stage.stretch('A', from, 'cut off')
  stage.mark('healed', 'its release arrives', 'A')
  if (releasing !== undefined) await within(stage.ttlMs, releasing.done)
  if (hold === undefined) {
    const later = await b.mustBeServed(lock, 'A’s release had arrived')
    await later?.release()
    return
  }
  await third(stage, lock, c, hold)
  await hold.release()
}

/** C asks while B holds, and both work: side by side, if C was let in. */
async function third(stage: Stage, lock: string, c: Actor, second: HoldHandle | undefined): Promise<void> {
  const { hold } = await c.tryAcquire(lock)
  await Promise.all([hold?.work(stage.spellMs), second?.work(stage.spellMs)])
  await hold?.release()
}

export default situation
