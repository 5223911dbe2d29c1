import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { zookeeper } from '../../src/backends/zookeeper/index.js'
import { Holdfast } from '../../src/core/holdfast.js'
import { type Server, startZookeeper } from '../servers/index.js'
import { curatorTakers, kazooTakers, type Taker, type Takers } from './taker.js'

const EVENTUALLY = { timeout: 20_000, interval: 20 }

let server: Server
let locks: Holdfast
let hosts: string

beforeAll(async () => {
  server = await startZookeeper()
  hosts = `127.0.0.1:${server.port}`
  locks = new Holdfast(zookeeper({ hosts, session: '10s', tick: '200ms', curator: '/shared' }))
  await locks.ready()
})

afterAll(async () => {
  await locks.close()
  await server.stop()
})

const LIBRARIES: [string, () => Promise<Takers>][] = [
  ["Curator's InterProcessMutex and InterProcessReadWriteLock", curatorTakers],
  ["kazoo's Lock, ReadLock and WriteLock with its Curator patterns", kazooTakers],
]

describe.each(LIBRARIES)('%s', (library, make) => {
  let takers: Takers
  const started: Taker[] = []
  let name = ''
  let count = 0

  beforeAll(async () => {
    takers = await make()
  })
  afterEach(async () => {
    await Promise.all(started.splice(0).map((taker) => taker.end()))
  })
  afterAll(async () => {
    await takers.remove()
  })

  async function start(kind: 'mutex' | 'read' | 'write'): Promise<Taker> {
    const taker = await takers.start(hosts, `/shared/${name}`, kind)
    started.push(taker)
    return taker
  }
  function newName(): void {
    count += 1
    name = `${library.split("'", 1)[0]}/${count}`
  }
  const standing = async (): Promise<number> => (await locks.view(name))[0]?.tickets.length ?? 0
  const stand = (wanted: number): Promise<void> =>
    vi.waitFor(async () => expect(await standing()).toBe(wanted), EVENTUALLY)

  test('a mutex of ours keeps theirs out, and theirs keeps ours out', async () => {
    newName()
    const theirs = await start('mutex')
    const ours = await locks.lock(name).acquire()
    expect(await theirs.tell('try')).toBe('refused')
    await ours.release()
    expect(await theirs.tell('acquire')).toBe('held')
    expect(await locks.lock(name).tryAcquire()).toBeUndefined()
    await expect(locks.lock(name).acquire({ wait: '300ms' })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' })
    expect(await theirs.tell('release')).toBe('released')
    const again = await locks.lock(name).acquire({ wait: '20s' })
    expect(again.fence).toBeGreaterThan(ours.fence)
    await again.release()
  })

  test('first come, first served, theirs and ours in one line', async () => {
    newName()
    const served: string[] = []
    const [one, two] = [await start('mutex'), await start('mutex')]
    const first = await locks.lock(name).acquire()
    const waiting: Promise<unknown>[] = []
    for (const [index, who] of [one, undefined, two, undefined].entries()) {
      waiting.push(
        who === undefined
          ? locks.lock(name).use(() => void served.push(`ours ${index}`))
          : who.tell('acquire').then(async () => {
              served.push(`theirs ${index}`)
              await who.tell('release')
            }),
      )
      await stand(index + 2)
    }
    await first.release()
    await Promise.all(waiting)
    expect(served).toEqual(['theirs 0', 'ours 1', 'theirs 2', 'ours 3'])
  })

  test('read-write: readers share across libraries, and writers keep everyone out, both ways', async () => {
    newName()
    const [reader, writer] = [await start('read'), await start('write')]
    const { read, write } = locks.readWriteLock(name)
    const ours = await read.acquire()
    expect(await reader.tell('try')).toBe('held')
    expect(await writer.tell('try')).toBe('refused')
    expect(await write.tryAcquire()).toBeUndefined()
    await ours.release()
    expect(await write.tryAcquire()).toBeUndefined()
    await reader.tell('release')
    const writing = await write.acquire({ wait: '20s' })
    expect(await reader.tell('try')).toBe('refused')
    expect(await writer.tell('try')).toBe('refused')
    await writing.release()
    expect(await writer.tell('acquire')).toBe('held')
    expect(await read.tryAcquire()).toBeUndefined()
    expect(await write.tryAcquire()).toBeUndefined()
    await writer.tell('release')
  })

  test('read-write: nobody passes a writer in line, whoever it is', async () => {
    newName()
    const served: string[] = []
    const writer = await start('write')
    const { read } = locks.readWriteLock(name)
    const first = await read.acquire()
    const theirs = writer.tell('acquire').then(async () => {
      served.push('their write')
      await writer.tell('release')
    })
    await stand(2)
    const ours = read.use(() => void served.push('our read'))
    await stand(3)
    await first.release()
    await Promise.all([theirs, ours])
    expect(served).toEqual(['their write', 'our read'])
  })
})
