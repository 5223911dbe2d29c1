import { type Contender, goal, type StoreBench } from '../contender.js'
import { holdfast } from '../holdfast.js'
import { kept, longLine } from '../kept.js'
import { importPeer } from '../peer.js'

interface AsyncMutex {
  Mutex: new () => { acquire(): Promise<() => void> }
}

const asyncMutex: Contender = {
  name: 'async-mutex',
  role: 'peer',
  open: async () => {
    const { Mutex } = await importPeer<AsyncMutex>('async-mutex')
    const mutexes = new Map<string, InstanceType<typeof Mutex>>()
    return {
      acquire: async (name) => {
        const mutex = mutexes.get(name) ?? new Mutex()
        mutexes.set(name, mutex)
        const release = await mutex.acquire()
        return async () => release()
      },
      close: async () => {},
    }
  },
}

const store: StoreBench = {
  name: 'memory',
  oneProcess: true,
  start: async () => ({ url: 'memory:bench', stop: async () => {} }),
  contenders: [asyncMutex, holdfast],
  goals: (results) => [goal('sequential pairs/s', results['holdfast']!.sequential!, '≥', 200_000)],
  extras: async (url) => [await kept(url), await longLine(url)],
}
export default store
