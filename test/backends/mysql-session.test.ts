import { SESSION_GUARANTEES } from '../../src/backends/mysql/session/session-backend.js'
import { startMariadb } from '../servers/index.js'
import { describeBackend } from '../suite.js'

describeBackend('mysql, session mode', SESSION_GUARANTEES, async () => {
  const server = await startMariadb()
  return { url: `${server.url}?mode=session`, stop: () => server.stop() }
})
