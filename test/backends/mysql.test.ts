import { GUARANTEES } from '../../src/backends/mysql/lease-backend.js'
import { startMariadb } from '../servers/index.js'
import { describeBackend } from '../suite.js'

describeBackend('mysql', GUARANTEES, startMariadb)
