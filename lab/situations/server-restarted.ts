import type { Situation } from '../situation.js'
import { rivals } from './rivals.js'

const ATTEMPTS = 3
/** So soon is B to be answered: A's hold has long to go, and A has had no reason to look at it again. */
const IN_TIME_MS = 6_000

/** The store's server is killed and started again while the lock is held. */
const situation: Situation = {
  name: 'server-restarted',
  title: 'server restarted',
  breaksServers: true,
  story:
    'While A holds, the server is killed (kill -9) and started again, Redis and memcached without persistence as they mostly run. A’s hold has long to go. B asks at once. (Redlock: A has three of the five; one of those restarts.)',
  async run(stage) {
    const { servers } = stage.rig
    if (servers.length === 0) stage.notOffered('the store is a file: there is no server to restart')
    const options = { ttlMs: stage.longTtlMs }
    const a = await stage.contender('A', options)
    // Of several servers one was perhaps restarted before: it may have to learn from the others, whom B reaches.
    const early = servers.length > 1 ? await stage.contender('B', options) : undefined
    // Just a majority: of five servers, A reaches three.
    const majority = (servers.length >> 1) + 1
    for (const proxy of a.ways.proxies.slice(majority)) await proxy.refuse()
    const server = servers[majority - 1]!
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      if (attempt > 1) await stage.rig.settled()
      const lock = stage.lock()
      const held = await a.mustBeServed(lock, 'nobody else was there')
      if (held === undefined) return
      await held.work(stage.spellMs)
      stage.mark('fault', 'server killed')
      const killedAt = stage.now()
      await server.kill()
      await server.start()
      stage.mark('healed', 'server up again')
      const b = early ?? (await stage.contender('B', options))
      const answeredAt = await rivals(stage, lock, held, b)
      // On a machine that was too busy for that A's hold may have run out, or A have looked: once more.
      if (answeredAt - killedAt < IN_TIME_MS) return
    }
  },
}

export default situation
