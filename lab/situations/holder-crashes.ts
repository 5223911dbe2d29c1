import type { Situation } from '../situation.js'

/** The holder is killed. */
const situation: Situation = {
  name: 'holder-crashes',
  title: 'holder crashes',
  story: 'A is killed while it holds the lock. B must be served once A’s hold has run out.',
  async run(stage) {
    const lock = stage.lock()
    const [a, b] = await Promise.all([stage.contender('A'), stage.contender('B')])
    const held = await a.mustBeServed(lock, 'nobody else was there')
    await held?.work(stage.spellMs)
    await a.kill()
    const hold = await b.mustBeServed(lock, 'its holder is dead')
    await hold?.work(stage.spellMs)
    await hold?.release()
  },
}

export default situation
