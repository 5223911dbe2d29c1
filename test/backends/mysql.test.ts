import { GUARANTEES } from '../../src/backends/mysql/lease-backend.js'
import { SESSION_GUARANTEES } from '../../src/backends/mysql/session/session-backend.js'
import { startMariadb } from '../servers/index.js'
import { describeBackend } from '../suite.js'

describeBackend('mysql', GUARANTEES, startMariadb)
describeBackend('mysql in session mode', SESSION_GUARANTEES, async () => {
  const server = await startMariadb()
  return { url: `${server.url}?mode=session`, stop: () => server.stop() }
})
