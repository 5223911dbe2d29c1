import type { Actor, HoldHandle } from '../actor.js'
import type { Situation } from '../situation.js'

const ATTEMPTS = 10

/** The holder is stopped for longer than its ttl: a long garbage collection, a suspended machine. */
const situation: Situation = {
  name: 'holder-paused',
  title: 'holder paused past its ttl',
  story:
    'A has just looked at its lock and is about to write when it is stopped (SIGSTOP). B takes the lock and writes. Then A wakes and writes: only a fencing token lets the register refuse it.',
  async run(stage) {
    const lock = stage.lock()
    const [a, b] = await Promise.all([stage.contender('A'), stage.contender('B')])
    const { held, writing } = await aboutToWrite(a, lock)
    stage.mark('fault', 'stopped', 'A')
    const resume = a.pause()
    const hold = await b.mustBeServed(lock, 'A had been stopped for much longer than its ttl')
    await hold?.work(stage.spellMs)
    resume()
    stage.mark('healed', 'goes on', 'A')
    await a.goOn()
    await Promise.all([writing?.done, hold?.work(stage.spellMs)])
    await hold?.release()
    await held?.release()
  },
}

/** On a busy machine a short hold may be over before its holder gets to look: it then takes the lock again. */
async function aboutToWrite(
  a: Actor,
  lock: string,
): Promise<{ held?: HoldHandle; writing?: { done: Promise<boolean> } }> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const held = await a.mustBeServed(lock, 'nobody else was there')
    const writing = await held?.workAndStop()
    if (held === undefined) return {}
    if (writing !== undefined) return { held, writing }
    await held.release()
  }
  throw new Error(`A never got to look at its lock in time, in ${ATTEMPTS} attempts.`)
}

export default situation
