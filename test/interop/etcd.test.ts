import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { connect, type Holdfast } from '../../src/index.js'
import { ensure, type Server, startEtcd } from '../servers/index.js'

let server: Server
let etcdctl: string
const running = new Set<Foreign>()
const open: Holdfast[] = []

beforeAll(async () => {
  etcdctl = await ensure('etcdctl')
  server = await startEtcd()
})

afterEach(async () => {
  await Promise.all([...running].map((foreign) => foreign.release()))
  await Promise.all(open.splice(0).map((client) => client.close()))
})

afterAll(async () => {
  await server.stop()
})

/** `etcdctl lock NAME`: Go's concurrency.Mutex. It prints its key when it holds, and holds until it is told to end. */
class Foreign {
  readonly #child: ChildProcess
  #output = ''

  constructor(name: string) {
    const env = { ...process.env, ETCDCTL_API: '3' }
    this.#child = spawn(etcdctl, ['--endpoints', `127.0.0.1:${server.port}`, 'lock', '--ttl', '5', name], { env })
    this.#child.stdout?.on('data', (text: Buffer) => {
      this.#output += text.toString()
    })
    running.add(this)
  }

  get key(): string {
    return this.#output.trim()
  }

  async holds(): Promise<void> {
    await expect.poll(() => this.key, { timeout: 10_000 }).not.toBe('')
  }

  async release(): Promise<void> {
    running.delete(this)
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exit = once(this.#child, 'exit')
    this.#child.kill('SIGINT')
    await exit
  }
}

async function client(more = ''): Promise<Holdfast> {
  const made = await connect(`${server.url}${more}`)
  open.push(made)
  return made
}

async function standing(locks: Holdfast, name: string, count: number): Promise<void> {
  await expect.poll(async () => (await locks.view(name))[0]?.tickets.length ?? 0, { timeout: 10_000 }).toBe(count)
}

describe('etcdctl lock', () => {
  test('what it holds, we do not get; and we do when it lets go', async () => {
    const locks = await client()
    const foreign = new Foreign('holdfast/deploy')
    await foreign.holds()
    expect(foreign.key).toMatch(/^holdfast\/deploy\/[0-9a-f]+$/)
    expect(await locks.lock('deploy').tryAcquire()).toBeUndefined()
    const waiting = locks.lock('deploy').acquire()
    await standing(locks, 'deploy', 2)
    await foreign.release()
    await (await waiting).release()
  })

  test('what we hold, it does not get; and it does when we let go', async () => {
    const locks = await client()
    const lease = await locks.lock('deploy').acquire()
    const foreign = new Foreign('holdfast/deploy')
    await standing(locks, 'deploy', 2)
    expect(foreign.key).toBe('')
    await lease.release()
    await foreign.holds()
  })

  test('it and we are served first come, first served', async () => {
    const [locks, others] = [await client(), await client()]
    const first = await locks.lock('queue').acquire()
    const second = new Foreign('holdfast/queue')
    await standing(locks, 'queue', 2)
    let thirdHolds = false
    const third = others.lock('queue').acquire()
    void third.then(() => {
      thirdHolds = true
    })
    await standing(locks, 'queue', 3)
    const fourth = new Foreign('holdfast/queue')
    await standing(locks, 'queue', 4)
    await first.release()
    await second.holds()
    expect([thirdHolds, fourth.key]).toEqual([false, ''])
    await second.release()
    const lease = await third
    expect(fourth.key).toBe('')
    expect(lease.fence).toBeGreaterThan(first.fence)
    await lease.release()
    await fourth.holds()
  })

  test('it is seen and can be evicted like any holder', async () => {
    const locks = await client()
    const foreign = new Foreign('holdfast/stuck')
    await foreign.holds()
    const [line] = await locks.view('stuck')
    expect(line?.tickets[0]?.owner).toMatch(/^lease [0-9a-f]+$/)
    const waiting = locks.lock('stuck').acquire()
    await standing(locks, 'stuck', 2)
    expect(await locks.evict(line!.tickets[0]!)).toBe(true)
    await (await waiting).release()
  })

  test('a path of any depth is shared by a prefix', async () => {
    const locks = await client('/services/db')
    const foreign = new Foreign('services/db/migrate')
    await foreign.holds()
    expect(await locks.lock('migrate').tryAcquire()).toBeUndefined()
    const bare = await client('?prefix=')
    const root = new Foreign('root')
    await root.holds()
    expect(await bare.lock('root').tryAcquire()).toBeUndefined()
  })

  test("a name's slash makes no path: a holds, a/b is free, and so is it to etcdctl", async () => {
    const locks = await client()
    const outer = await locks.lock('a').acquire()
    const inner = await locks.lock('a/b').tryAcquire()
    expect(inner).toBeDefined()
    await outer.release()
    // Were the slash kept, `holdfast/a/` would hold the ticket of a/b, and etcdctl would wait for it.
    const foreign = new Foreign('holdfast/a')
    await foreign.holds()
    expect(await locks.lock('a').tryAcquire()).toBeUndefined()
    await inner?.release()
  })
})
