import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { startMemcached } from '../../test/servers/index.js'
import { type Contender, goal, type StoreBench } from '../contender.js'
import { holdfast } from '../holdfast.js'
import { kept } from '../kept.js'

/**
 * What people write by themselves: add a key with a time to live, try again after a while, and delete it by
 * compare-and-delete. One round trip each; no line, so no order.
 */
function addAndDelete(retryMs: number): Contender {
  return {
    name: `raw add, retry ${retryMs} ms`,
    role: 'raw',
    open: async (url) => {
      const ask = await lineClient(Number(new URL(url).port))
      return {
        acquire: async (name) => {
          const token = randomUUID()
          for (;;) {
            const answer = await ask(`ms raw:${name} ${token.length} ME T30 c\r\n${token}`)
            if (answer.startsWith('HD')) return () => ask(`md raw:${name} C${answer.slice(4)}`)
            await sleep(retryMs * (0.5 + Math.random()))
          }
        },
        close: async () => ask.end(),
      }
    },
  }
}

/** The least that speaks to memcached: a line out, a line in. */
async function lineClient(port: number): Promise<((text: string) => Promise<string>) & { end(): void }> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await once(socket, 'connect')
  const waiting: ((line: string) => void)[] = []
  let rest = ''
  socket.on('data', (bytes) => {
    const lines = (rest + bytes.toString('latin1')).split('\r\n')
    rest = lines.pop() ?? ''
    for (const line of lines) waiting.shift()?.(line)
  })
  const ask = (text: string): Promise<string> =>
    new Promise((resolve) => {
      waiting.push(resolve)
      socket.write(`${text}\r\n`)
    })
  return Object.assign(ask, { end: () => void socket.destroy() })
}

const store: StoreBench = {
  name: 'memcached',
  start: () => startMemcached(),
  contenders: [addAndDelete(10), addAndDelete(100), holdfast],
  goals: (results) => {
    const { drain, hot } = results['holdfast']!
    return [
      goal('drain 2 × 50: served', drain!.served, '≥', 100),
      goal('drain 2 × 50: × ideal', drain!.ms / drain!.idealMs, '≤', 10),
      goal('hot key: most served : least served', hot!.most / hot!.least, '≤', 1.2),
    ]
  },
  extras: async (url) => [await kept(url)],
}
export default store
