import { postgres } from '../../src/backends/postgres/index.js'
import { startPostgres } from '../servers/index.js'
import { describeBackend } from '../suite.js'

const unopened = async (): Promise<never> => await Promise.reject(new Error('never opened'))

describeBackend('postgres', postgres(unopened).guarantees, startPostgres)
