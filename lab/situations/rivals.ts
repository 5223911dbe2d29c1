import type { Actor, HoldHandle } from '../actor.js'
import type { Stage } from '../stage.js'

const ASKS_FOR_MS = 2_000

/**
 * What A and B do once the store has forgotten (or not) that A holds. A's hold has long to go. B asks; if it is
 * served, both go to the register, the new holder first. If it is not, A lets go and B must be served.
 */
export async function rivals(stage: Stage, lock: string, held: HoldHandle, b: Actor): Promise<void> {
  // A store that is just coming up answers with errors, which are no answer: it asks again.
  const asked = await b.askFor(lock, ASKS_FOR_MS)
  if (asked.hold === undefined) {
    await held.release()
    const hold = await b.mustBeServed(lock, 'A had let go', stage.longTtlMs + 2_000)
    await hold?.work(stage.spellMs)
    await hold?.release()
    return
  }
  await asked.hold.work()
  await Promise.all([held.work(stage.spellMs), asked.hold.work(stage.spellMs)])
  await asked.hold.release()
  await held.release()
}
