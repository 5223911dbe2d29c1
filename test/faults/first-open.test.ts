import { expect, test } from 'vitest'
import { openBackend } from '../../src/connect.js'
import { Holdfast } from '../../src/core/holdfast.js'
import {
  type Server,
  startEtcd,
  startMariadb,
  startMemcached,
  startPostgres,
  startRedis,
  startZookeeper,
} from '../servers/index.js'

/** A process may be started before its store is. The quorum's is in quorum.test.ts: its servers count a while later. */

const STORES: readonly [string, () => Promise<Server>, readonly string[]][] = [
  ['Redis', startRedis, ['']],
  ['memcached', startMemcached, ['']],
  ['PostgreSQL', startPostgres, ['', '?mode=session']],
  ['MariaDB', startMariadb, ['', '?mode=session']],
  ['ZooKeeper', startZookeeper, ['']],
  ['etcd', startEtcd, ['']],
]

test.each(STORES)(
  '%s is away when a client first asks: an error, and all is well once it is there',
  async (...store) => {
    const [, start, modes] = store
    const server = await start()
    try {
      for (const mode of modes) {
        await server.kill()
        const locks = new Holdfast(await openBackend(server.url + mode))
        for (let i = 0; i < 3; i += 1) {
          await expect(locks.lock('early').tryAcquire()).rejects.toMatchObject({ code: 'BACKEND', retryable: true })
        }
        await server.start()
        const [lease, second] = [await locks.lock('early').acquire({ wait: '30s' }), locks.lock('early').acquire()]
        await lease.renew()
        expect(await lease.release()).toBe(true)
        expect(await (await second).release()).toBe(true)
        await locks.close()
      }
    } finally {
      await server.stop()
    }
  },
)
