import { importPeer } from './peer.js'

interface VerrouModule {
  Verrou: new (
    config: object,
  ) => {
    createLock(name: string, ttl: string): VerrouLock
  }
}
interface VerrouLock {
  acquire(): Promise<unknown>
  release(): Promise<void>
}
interface VerrouKysely {
  kyselyStore: (config: object) => object
}
type Dialect = 'PostgresDialect' | 'MysqlDialect'
type KyselyModule = {
  Kysely: new (config: object) => { destroy(): Promise<void> }
} & Record<Dialect, new (config: object) => object>

/** verrou's locks over kysely, on the given pool. */
export async function verrouOver(
  dialect: Dialect,
  pool: object,
): Promise<{ lock(name: string): VerrouLock; close(): Promise<void> }> {
  const kysely = await importPeer<KyselyModule>('kysely')
  const { Verrou } = await importPeer<VerrouModule>('@verrou/core')
  const { kyselyStore } = await importPeer<VerrouKysely>('@verrou/core/drivers/kysely')
  const connection = new kysely.Kysely({ dialect: new kysely[dialect]({ pool }) })
  const locks = new Verrou({ default: 'db', stores: { db: { driver: kyselyStore({ connection }) } } })
  return { lock: (name) => locks.createLock(name, '30s'), close: () => connection.destroy() }
}
