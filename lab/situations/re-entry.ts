import type { Situation } from '../situation.js'

/** The holder takes the lock that it holds already. */
const situation: Situation = {
  name: 're-entry',
  title: 'holder re-enters',
  story:
    'A takes the lock again while it holds it (a function under the lock calls another one). Where that is offered, letting go of the inner hold must not let B in.',
  async run(stage) {
    const lock = stage.lock()
    const ttlMs = stage.longTtlMs
    const [a, b] = await Promise.all([stage.contender('A', { ttlMs }), stage.contender('B', { ttlMs })])
    const outer = await a.mustBeServed(lock, 'nobody else was there')
    await outer?.work(stage.spellMs)
    const { hold: inner } = await a.tryAcquire(lock)
    if (inner === undefined) {
      await outer?.release()
      if (!stage.recipe.offers.reentrant) stage.notOffered('whoever holds and asks again is refused')
      stage.hang('A was refused its own lock, although the recipe says that a holder may take it again')
      return
    }
    await inner.work(stage.spellMs)
    await inner.release()
    stage.mark('note', 'lets go of the inner hold', 'A')
    const { hold } = await b.tryAcquire(lock)
    await Promise.all([hold?.work(stage.spellMs), outer?.work(stage.spellMs)])
    await outer?.release()
    await hold?.release()
  },
}

export default situation
