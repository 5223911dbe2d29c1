import { connect } from 'holdfast'
import { startEtcd } from '../../test/servers/index.js'
import { type Contender, type Extra, type Goal, goal, type Results, type StoreBench } from '../contender.js'
import { buildGoMutex, goMutex } from '../foreign/go-mutex.js'
import { holdfast } from '../holdfast.js'
import { importPeer } from '../peer.js'

interface Etcd3 {
  Etcd3: new (options: { hosts: string }) => Etcd3Client
}

interface Etcd3Client {
  lease(ttl: number): { put(key: string): { value(value: string): Promise<unknown> }; revoke(): Promise<void> }
  delete(): { key(key: string): PromiseLike<unknown> }
  lock(name: string): { ttl(seconds: number): { acquire(): Promise<{ release(): Promise<void> }> } }
  close(): void
}

async function etcd3Client(url: string): Promise<Etcd3Client> {
  const { Etcd3 } = await importPeer<Etcd3>('etcd3')
  return new Etcd3({ hosts: url.replace('etcd://', '') })
}

const raw: Contender = {
  name: 'put + delete',
  role: 'raw',
  not: { drain: 'excludes nobody', hot: 'excludes nobody' },
  open: async (url) => {
    const client = await etcd3Client(url)
    const lease = client.lease(30)
    return {
      acquire: async (name) => {
        await lease.put(name).value('')
        return async () => await client.delete().key(name)
      },
      close: async () => {
        await lease.revoke()
        client.close()
      },
    }
  },
}

/** Its lock does not wait: it is tried again every 10 to 30 ms. */
const etcd3Lock: Contender = {
  name: 'etcd3 lock()',
  role: 'peer',
  open: async (url) => {
    const client = await etcd3Client(url)
    return {
      acquire: async (name) => {
        for (;;) {
          try {
            const lock = await client.lock(name).ttl(30).acquire()
            return () => lock.release()
          } catch (error) {
            if (!(error instanceof Error) || error.constructor.name !== 'EtcdLockFailedError') throw error
            await new Promise((resolve) => setTimeout(resolve, 10 + Math.random() * 20))
          }
        }
      },
      close: async () => client.close(),
    }
  },
}

/** How many requests the server has had: calls, and messages on streams (a watch made or ended is one). */
async function requestsSoFar(url: string): Promise<number> {
  const answer = await fetch(`http://${url.replace('etcd://', '')}/metrics`)
  const lines = (await answer.text()).split('\n').filter((line) => line.startsWith('grpc_server_msg_received_total'))
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

/** So many that a renewal of those who wait, which comes in between or does not, hardly shows. */
const HAND_OFFS = 200

/** What a hand-off costs the server while this many wait. Renewals of those who wait are left out. */
async function requestsPerHandOff(url: string, waiters: number): Promise<number> {
  const client = await connect(url)
  const name = `handoff:${waiters}`
  const stop = new AbortController()
  type Held = Awaited<ReturnType<ReturnType<typeof client.lock>['acquire']>>
  let held = await client.lock(name).acquire()
  let granted: (lease: Held) => void = () => failed(new Error('granted before the holder let go'))
  let failed: (error: unknown) => void = () => undefined
  const failure = new Promise<never>((_, reject) => {
    failed = reject
  })
  failure.catch(() => undefined)
  for (let i = 0; i < waiters + HAND_OFFS; i += 1) {
    client
      .lock(name)
      .acquire({ signal: stop.signal })
      .then(
        (lease) => granted(lease),
        (error: unknown) => {
          if (!stop.signal.aborted) failed(error)
        },
      )
  }
  for (;;) {
    const [view] = await client.view(name).catch(() => [])
    if (view?.tickets.length === waiters + HAND_OFFS + 1) break
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
  const idle = await rateWhileIdle(url)
  const from = performance.now()
  const before = await requestsSoFar(url)
  for (let i = 0; i < HAND_OFFS; i += 1) {
    const next = new Promise<Held>((resolve) => {
      granted = resolve
    })
    await held.release()
    held = await Promise.race([next, failure])
  }
  const after = await requestsSoFar(url)
  const ms = performance.now() - from
  stop.abort(new Error('measured'))
  await held.release()
  await client.close()
  return (after - before - idle * ms) / HAND_OFFS
}

async function rateWhileIdle(url: string): Promise<number> {
  const from = performance.now()
  const before = await requestsSoFar(url)
  await new Promise((resolve) => setTimeout(resolve, 3_400))
  return ((await requestsSoFar(url)) - before) / (performance.now() - from)
}

async function handOffs(url: string): Promise<Extra> {
  const few = await requestsPerHandOff(url, 10)
  const many = await requestsPerHandOff(url, 1_000)
  return {
    title: 'Requests to the server a hand-off (calls and watch messages)',
    values: { 'with 10 waiting': few.toFixed(1), 'with 1,000 waiting': many.toFixed(1) },
    goals: [goal('requests a hand-off, 1,000 waiting against 10', many / few, '≤', 1.5)],
  }
}

function goals(results: Results): Goal[] {
  const ours = results['holdfast']!
  const theirs = results['etcd3 lock()']!
  const go = results[goMutex.name]!
  return [
    goal('sequential against etcd3 lock()', ours.sequential! / theirs.sequential!, '≥', 1.5),
    goal('64 in flight against etcd3 lock()', ours.inflight! / theirs.inflight!, '≥', 5),
    goal("64 in flight against Go's Mutex", ours.inflight! / go.inflight!, '≥', 1),
    goal("drain 2 × 50 against Go's Mutex", ours.drain!.ms / go.drain!.ms, '≤', 1),
    goal('hot key: most against least served', ours.hot!.most / ours.hot!.least, '≤', 1.2),
  ]
}

const store: StoreBench = {
  name: 'etcd',
  start: async () => {
    const program = await buildGoMutex()
    const server = await startEtcd()
    return {
      url: server.url,
      stop: async () => {
        await server.stop()
        program.remove()
      },
    }
  },
  contenders: [raw, etcd3Lock, goMutex, holdfast],
  goals,
  extras: async (url) => [await handOffs(url)],
}
export default store
