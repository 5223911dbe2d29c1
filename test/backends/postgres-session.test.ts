import { postgres } from '../../src/backends/postgres/index.js'
import { startPostgres } from '../servers/index.js'
import { describeBackend } from '../suite.js'

const unopened = async (): Promise<never> => await Promise.reject(new Error('never opened'))

describeBackend('postgres, session mode', postgres(unopened, { mode: 'session' }).guarantees, async () => {
  const server = await startPostgres()
  return { url: `${server.url}?mode=session`, stop: () => server.stop() }
})
