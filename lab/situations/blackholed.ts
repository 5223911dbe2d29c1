import type { Situation } from '../situation.js'

/** The holder's packets vanish, both ways, and nothing tells it. */
const situation: Situation = {
  name: 'blackholed',
  title: 'store blackholed',
  story:
    'Everything between A and the store vanishes, both ways, without an error, while A works on under its lock. B reaches the store. B must be served after A’s ttl, and by then A must know.',
  async run(stage) {
    if (stage.rig.servers.length === 0) stage.notOffered('the store is a file: there is nothing between')
    const lock = stage.lock()
    // Where heartbeats keep a session, there is some time between its end and when its holder is told: long enough to be seen.
    const ttlMs = (stage.rig.sessions ? 2 : 1) * stage.ttlMs
    const [a, b] = await Promise.all([stage.contender('A', { ttlMs }), stage.contender('B')])
    const held = await a.mustBeServed(lock, 'nobody else was there')
    await held?.work(stage.spellMs)
    const from = stage.now()
    for (const proxy of a.ways.proxies) proxy.blackhole()
    stage.mark('fault', 'cut off', 'A')
    const working = held?.work(1.5 * ttlMs)
    const hold = await b.mustBeServed(lock, 'A has been cut off for much longer than its ttl', stage.patienceMs + ttlMs)
    await hold?.work()
    await working
    await Promise.all([hold?.work(stage.spellMs), held?.work(stage.spellMs)])
    if (stage.recipe.offers.blocking) {
      const { answer } = await a.acquire(stage.lock(), stage.ttlMs)
      if (answer === 'late') stage.hang(`A asked to wait for ${stage.ttlMs} ms, and its call never returned`)
    }
    stage.stretch('A', from, 'cut off from the store')
    await hold?.release()
  },
}

export default situation
