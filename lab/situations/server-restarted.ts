import type { Situation } from '../situation.js'
import { rivals } from './rivals.js'

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
    const lock = stage.lock()
    const options = { ttlMs: stage.longTtlMs }
    const a = await stage.contender('A', options)
    // Of several servers one was perhaps restarted before: it may have to learn from the others, whom B reaches.
    const early = servers.length > 1 ? await stage.contender('B', options) : undefined
    // Just a majority: of five servers, A reaches three.
    const majority = (servers.length >> 1) + 1
    for (const proxy of a.ways.proxies.slice(majority)) await proxy.refuse()
    const held = await a.mustBeServed(lock, 'nobody else was there')
    await held?.work(stage.spellMs)
    const server = servers[majority - 1]!
    stage.mark('fault', 'server killed')
    await server.kill()
    await server.start()
    stage.mark('healed', 'server up again')
    if (held !== undefined) await rivals(stage, lock, held, early ?? (await stage.contender('B', options)))
  },
}

export default situation
