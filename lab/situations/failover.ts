import { type Server, startProxy, startRedis } from '../../test/servers/index.js'
import { ask } from '../../test/servers/probe.js'
import type { Situation } from '../situation.js'
import type { Stage } from '../stage.js'
import { rivals } from './rivals.js'

/** The master dies before its replica has heard of the lock, and the replica takes over. */
const situation: Situation = {
  name: 'failover',
  title: 'master fails over before replication',
  story:
    'A takes the lock from the master. Before the replica hears of it the master dies, and the replica is promoted. B asks the new master. Replication is not awaited, so the lock is gone; only a token that still grows helps.',
  async run(stage) {
    if (stage.rig.store !== 'redis') stage.notOffered('only a single Redis is run with replicas that lag behind')
    const { master, replica, cut } = await pair(stage)
    const lock = stage.lock()
    const a = await stage.contender('A', { to: [master], ttlMs: stage.longTtlMs })
    await cut()
    const held = await a.mustBeServed(lock, 'nobody else was there')
    await held?.work(stage.spellMs)
    stage.mark('fault', 'master dies')
    await master.kill()
    await ask(replica.port, 'REPLICAOF NO ONE\r\n')
    for (const proxy of a.ways.proxies) {
      proxy.redirect(replica)
      proxy.cutNow()
    }
    stage.mark('healed', 'replica promoted')
    const b = await stage.contender('B', { to: [replica], ttlMs: stage.longTtlMs })
    if (held !== undefined) await rivals(stage, lock, held, b)
  },
}

/** A master and a replica with a wire between them that can be cut. */
async function pair(stage: Stage): Promise<{ master: Server; replica: Server; cut: () => Promise<void> }> {
  const args = ['--repl-diskless-sync-delay', '0']
  const master = await startRedis({ args })
  stage.afterwards(async () => await master.stop())
  const wire = await startProxy({ port: master.port })
  stage.afterwards(async () => await wire.stop())
  const replica = await startRedis({ args: [...args, '--replicaof', '127.0.0.1', String(wire.port)] })
  stage.afterwards(async () => await replica.stop())
  const until = stage.now() + 20_000
  while (!(await ask(replica.port, 'INFO replication\r\n'))?.includes('master_link_status:up')) {
    if (stage.now() > until) throw new Error('The replica did not find its master.')
    await stage.sleep(20)
  }
  return { master, replica, cut: async () => await wire.refuse() }
}

export default situation
