import type { Situation } from '../situation.js'

/** The holder's work takes longer than its ttl. */
const situation: Situation = {
  name: 'holder-slow',
  title: 'holder slower than its ttl',
  story:
    'A works for much longer than its ttl, in good health. B asks meanwhile, and must not get in while A works on.',
  async run(stage) {
    const lock = stage.lock()
    // In good health: a session that heartbeats keep is given room for a busy machine.
    const ttlMs = (stage.rig.sessions ? 2 : 1) * stage.ttlMs
    const [a, b] = await Promise.all([stage.contender('A', { ttlMs }), stage.contender('B')])
    const held = await a.mustBeServed(lock, 'nobody else was there')
    const until = stage.lived() + 3 * stage.ttlMs
    const asking = b.acquire(lock, 3 * stage.ttlMs + stage.patienceMs)
    const worked = asking.then(async ({ hold }) => await hold?.work(stage.ttlMs / 4))
    while (stage.lived() < until && (await held?.work(stage.ttlMs / 2)) === true);
    await held?.release()
    const { hold } = await asking
    await worked
    await hold?.release()
    // An error is no answer (its session may have ended while it waited): it asks again.
    const later = hold === undefined ? await b.mustBeServed(lock, 'A had let go') : undefined
    await later?.release()
  },
}

export default situation
