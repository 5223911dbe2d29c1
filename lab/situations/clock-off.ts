import type { Situation } from '../situation.js'

const HOUR_MS = 3_600_000

/** One client's wall clock is wrong by an hour. */
const situation: Situation = {
  name: 'clock-off',
  title: 'client’s clock off by an hour',
  story:
    'B’s wall clock is an hour fast: it must not get in while A holds. Then C, as fast, takes another lock and dies: D, whose clock is right, must be served all the same.',
  async run(stage) {
    const lock = stage.lock()
    const [a, b, c, d] = await Promise.all([
      stage.contender('A', { ttlMs: stage.longTtlMs }),
      stage.contender('B', { ttlMs: stage.longTtlMs, skewMs: HOUR_MS }),
      stage.contender('C', { skewMs: HOUR_MS }),
      stage.contender('D'),
    ])
    const held = await a.mustBeServed(lock, 'nobody else was there')
    await held?.work(stage.spellMs)
    stage.mark('fault', 'clock an hour fast', 'B')
    const { hold } = await b.tryAcquire(lock)
    await Promise.all([hold?.work(stage.spellMs), held?.work(stage.spellMs)])
    await hold?.release()
    await held?.release()

    // Without an end of its own a hold has no clock to be wrong about.
    if (!stage.recipe.offers.ttl) return
    const other = stage.lock()
    stage.mark('fault', 'clock an hour fast', 'C')
    await c.mustBeServed(other, 'nobody else was there')
    await c.kill()
    const last = await d.mustBeServed(other, 'its holder, whose clock was an hour fast, is dead')
    await last?.work(stage.spellMs)
    await last?.release()
  },
}

export default situation
