import fc from 'fast-check'
import { createServer, type Server as NetServer, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { Connection } from '../../src/backends/memcached/client/connection.js'
import { Link } from '../../src/backends/memcached/client/link.js'
import { flagOf, type Reply, ReplyParser } from '../../src/backends/memcached/client/reply.js'
import { decode, encode } from '../../src/backends/memcached/line-value.js'
import { freePort, releasePort, startMemcached } from '../servers/index.js'

describe('replies', () => {
  const word = fc.stringMatching(/^[a-z][A-Za-z0-9]{0,8}$/)
  const reply: fc.Arbitrary<Reply> = fc.oneof(
    fc.record({ code: fc.constantFrom('HD', 'EN', 'NF', 'NS', 'EX', 'MN'), words: fc.array(word, { maxLength: 3 }) }),
    fc.record({
      code: fc.constant('VA'),
      words: fc.array(word, { maxLength: 3 }),
      value: fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
    }),
  )
  const bytesOf = ({ code, words, value }: Reply): Buffer => {
    if (value === undefined) return Buffer.from(`${[code, ...words].join(' ')}\r\n`)
    return Buffer.concat([Buffer.from(`${['VA', value.length, ...words].join(' ')}\r\n`), value, Buffer.from('\r\n')])
  }

  test('come out whole, however the bytes are cut', () => {
    fc.assert(
      fc.property(fc.array(reply, { maxLength: 8 }), fc.array(fc.nat(200)), (replies, cuts) => {
        const bytes = Buffer.concat(replies.map(bytesOf))
        const ends = [...cuts.filter((cut) => cut < bytes.length).toSorted((a, b) => a - b), bytes.length]
        const parser = new ReplyParser()
        const seen = ends.flatMap((end, index) => parser.push(bytes.subarray(index === 0 ? 0 : ends[index - 1], end)))
        expect(seen).toEqual(replies)
      }),
    )
  })

  test('a length that is none, or data that is longer, is not read on', () => {
    expect(() => new ReplyParser().push(Buffer.from('VA x\r\n'))).toThrow()
    expect(() => new ReplyParser().push(Buffer.from('VA 1\r\nabc\r\n'))).toThrow()
  })

  test('flags are found by their letter', () => {
    expect(flagOf({ code: 'HD', words: ['c12', 't-1'] }, 't')).toBe('-1')
    expect(flagOf({ code: 'HD', words: [] }, 'c')).toBeUndefined()
  })
})

test('a line comes back from its bytes as it was', () => {
  const entry = fc.record({
    id: fc.uuid(),
    handle: fc.uuid(),
    order: fc.nat(),
    weight: fc.integer({ min: 1, max: 2 ** 30 }),
    capacity: fc.integer({ min: 1, max: 2 ** 30 }),
    left: fc.boolean(),
  })
  const line = fc.record({
    name: fc.string({ unit: 'grapheme' }),
    next: fc.nat(),
    entries: fc.array(
      fc.oneof(
        entry,
        entry.map((one) => ({ ...one, handle: one.id })),
      ),
    ),
    tombstones: fc.array(fc.record({ id: fc.uuid(), seconds: fc.nat() })),
  })
  fc.assert(
    fc.property(line, (value) => {
      expect(decode(Buffer.from(encode(value)))).toEqual(value)
    }),
  )
})

describe('a connection', () => {
  const closers: (() => void)[] = []
  afterEach(() => {
    for (const close of closers.splice(0)) close()
  })

  /** A server that is not memcached: answers the version, then whatever the test says. */
  async function fake(answer: (text: string, socket: Socket) => void): Promise<number> {
    const server: NetServer = createServer((socket) => {
      socket.on('error', () => socket.destroy())
      socket.on('data', (bytes) => {
        if (bytes.toString() === 'version\r\n') socket.write('VERSION 1.6.18\r\n')
        else if (bytes.toString() === 'stats settings\r\n') socket.write('END\r\n')
        else answer(bytes.toString(), socket)
      })
      closers.push(() => socket.destroy())
    })
    closers.push(() => server.close())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return (server.address() as { port: number }).port
  }
  const opened = async (port: number, timeoutMs = 2_000): Promise<Connection> => {
    const connection = await Connection.open({ host: '127.0.0.1', port }, { timeoutMs })
    closers.push(() => connection.close())
    return connection
  }

  test('speaks to the real server, many commands in flight', async () => {
    const server = await startMemcached()
    const connection = await opened(server.port)
    const rounds = await Promise.all(
      Array.from({ length: 200 }, (_, index) =>
        connection.send([`ms key${index} 2 T60 c\r\nhi`, `mg key${index} v`, `mg none${index} v`, `md key${index} C1`]),
      ),
    )
    for (const [stored, got, missed, deleted] of rounds) {
      expect(stored?.code).toBe('HD')
      expect(got?.value?.toString()).toBe('hi')
      expect(missed?.code).toBe('EN')
      expect(['HD', 'EX']).toContain(deleted?.code)
    }
    const large = 'x'.repeat(2_000_000)
    expect((await connection.send([`ms big ${large.length} T1\r\n${large}`]))[0]?.code).toBe('SERVER_ERROR')
    expect(connection.isOpen).toBe(true)
    await expect(connection.send([`mg ${'x'.repeat(251)} v`])).rejects.toMatchObject({
      code: 'BACKEND',
      retryable: true,
    })
    expect(connection.isOpen).toBe(false)
    await expect(connection.send(['mn'])).rejects.toMatchObject({ code: 'BACKEND' })
    await server.stop()
  })

  test('breaks when an answer does not come in time, for all that wait', async () => {
    const connection = await opened(await fake(() => {}), 100)
    const waiting = [connection.send(['mn']), connection.send(['mn', 'mn'])]
    for (const one of waiting) await expect(one).rejects.toThrow(/did not answer within 100 ms/)
  })

  test('breaks on an answer that nobody asked for, or that is not of the protocol', async () => {
    const unasked = await opened(await fake((_, socket) => socket.write('MN\r\nMN\r\n')))
    await unasked.send(['mn'])
    expect(unasked.isOpen).toBe(false)
    const foreign = await opened(await fake((_, socket) => socket.write('VA lots\r\n')))
    await expect(foreign.send(['mn'])).rejects.toThrow(/not memcached’s protocol/)
  })

  test('a server that takes connections and says nothing is told apart in bounded time', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1')
    await new Promise((resolve) => silent.once('listening', resolve))
    const { port } = silent.address() as { port: number }
    await expect(opened(port, 100)).rejects.toThrow(/did not answer within 100 ms/)
    silent.close()
  })

  test('a link makes a new connection after one broke, and tells a failure to all who ask at once', async () => {
    const port = await freePort()
    const link = new Link({ host: '127.0.0.1', port }, { timeoutMs: 500 })
    const failures = await Promise.allSettled([link.connection(), link.connection(), link.connection()])
    expect(failures.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    releasePort(port)
    const server = await startMemcached()
    const good = new Link(server, { timeoutMs: 500 })
    const first = await good.connection()
    expect(await good.connection()).toBe(first)
    first.close()
    const second = await good.connection()
    expect(second).not.toBe(first)
    expect((await second.send(['mn']))[0]?.code).toBe('MN')
    good.close()
    expect(second.isOpen).toBe(false)
    await server.stop()
  })
})
