import { guarantees } from '../../src/backends/redis/guarantees.js'
import { startRedis } from '../servers/index.js'
import { describeBackend } from '../suite.js'

describeBackend('redis', guarantees(false, 0), () => startRedis())
