/** The real servers, for tests and measurements: each on a free loopback port, with a directory that goes with it. */
export { type Ensemble, type EtcdOptions, startEtcd, startEtcdCluster } from './etcd.js'
export { faketime } from './faketime.js'
export { ensure } from './install.js'
export { type MariadbOptions, startMariadb } from './mariadb.js'
export { type MemcachedOptions, startMemcached } from './memcached.js'
export { type PgbouncerOptions, startPgbouncer } from './pgbouncer.js'
export { freePort, freePorts, releasePort } from './ports.js'
export { type PostgresOptions, startPostgres, startPostgresReplica } from './postgres.js'
export type { Server } from './process.js'
export { type Fault, type Proxy, type ProxyWay, startProxy } from './proxy.js'
export {
  type RedisCluster,
  type RedisOptions,
  type RedisSentinels,
  startCluster,
  startRedis,
  startSentinel,
} from './redis.js'
export { TurnedClock } from './turned-clock.js'
export { startZookeeper, startZookeeperEnsemble, type ZookeeperOptions } from './zookeeper.js'
