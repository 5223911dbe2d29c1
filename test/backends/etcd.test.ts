import { etcd } from '../../src/backends/etcd/index.js'
import { startEtcd } from '../servers/index.js'
import { describeBackend } from '../suite.js'

// Nothing is asked of a server before it is opened: the guarantees are known at once.
describeBackend('etcd', etcd({ hosts: ['localhost'] }).guarantees, () => startEtcd())
