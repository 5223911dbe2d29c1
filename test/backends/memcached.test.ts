import { GUARANTEES } from '../../src/backends/memcached/guarantees.js'
import { startMemcached } from '../servers/index.js'
import { describeBackend } from '../suite.js'

describeBackend('memcached', GUARANTEES, () => startMemcached())
