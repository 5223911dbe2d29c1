import type { Situation } from '../situation.js'

/** A contender dies in the middle of taking the lock. */
const situation: Situation = {
  name: 'crash-between-steps',
  title: 'crash between two steps',
  story:
    'A is killed between the first and the second step of taking the lock (right after taking it, where there is only one step). B must be served all the same.',
  async run(stage) {
    const lock = stage.lock()
    const [a, b] = await Promise.all([stage.contender('A'), stage.contender('B')])
    await a.arm('die')
    const { answer } = await a.acquire(lock, stage.patienceMs)
    if (answer === 'died') a.died()
    else await a.kill()
    const hold = await b.mustBeServed(lock, 'A is dead')
    await hold?.work(stage.spellMs)
    await hold?.release()
  },
}

export default situation
