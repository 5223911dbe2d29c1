import { createServer, type Http2Server, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import { type AddressInfo, createServer as createPlainServer } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { Connection } from '../../src/backends/etcd/connection.js'
import { framed, RpcError } from '../../src/backends/etcd/grpc.js'
import type { Reader } from '../../src/backends/etcd/wire.js'

// Against Node's own HTTP/2, which another hand wrote: it uses Huffman's code, remembers fields, splits long heads and
// keeps to the windows.

const cleanups: (() => unknown)[] = []

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

type Answer = (stream: ServerHttp2Stream, body: Buffer, headers: Record<string, unknown>) => void

interface Peer {
  readonly connection: Connection
  readonly sessions: ServerHttp2Session[]
  readonly server: Http2Server
}

/** A server that answers each request, once all of it is there, and a connection to it. */
async function connected(answer: Answer): Promise<Peer> {
  const server = createServer()
  const sessions: ServerHttp2Session[] = []
  server.on('session', (session) => sessions.push(session))
  server.on('stream', (stream, headers) => {
    const pieces: Buffer[] = []
    stream.on('error', () => undefined)
    stream.on('data', (piece: Buffer) => pieces.push(piece))
    stream.on('end', () => answer(stream, Buffer.concat(pieces), headers))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const connection = await Connection.open({ host: '127.0.0.1', port }, 5_000)
  cleanups.push(() => {
    connection.close()
    for (const session of sessions) session.destroy()
    server.close()
  })
  return { connection, sessions, server }
}

function reply(stream: ServerHttp2Stream, body: Buffer, fields: Record<string, string> = {}): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc', ...fields }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
  stream.end(framed(body))
}

/** Field 1 of the answer, as it is. */
function text(reader: Reader): string {
  return reader.next() === 0 ? '' : reader.binary()
}

function message(content: string): Buffer {
  const bytes = Buffer.from(content, 'latin1')
  const length: number[] = []
  let rest = bytes.length
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) length.push((rest % 0x80) | 0x80)
  return Buffer.concat([Buffer.from([(1 << 3) | 2, ...length, rest]), bytes])
}

const options = { timeoutMs: 20_000 }

describe('the connection to a member', () => {
  test('a request arrives as it was sent, and so does its answer', async () => {
    let seen: Record<string, unknown> = {}
    const { connection } = await connected((stream, body, headers) => {
      seen = headers
      reply(stream, body.subarray(5))
    })
    const answer = await connection.call('/some/Call', message('hello'), text, { ...options, token: 't'.repeat(300) })
    expect(answer).toBe('hello')
    expect(seen).toMatchObject({
      ':method': 'POST',
      ':scheme': 'http',
      ':path': '/some/Call',
      'content-type': 'application/grpc',
      'grpc-timeout': '20000m',
      te: 'trailers',
      token: 't'.repeat(300),
    })
  })

  test('messages larger than every window pass, both ways and many at a time', async () => {
    const { connection } = await connected((stream, body) => reply(stream, body.subarray(5)))
    const contents = Array.from({ length: 8 }, (_, i) => String(i).repeat(3_000_000 + i))
    const answers = await Promise.all(contents.map((one) => connection.call('/x', message(one), text, options)))
    expect(answers.map((one) => one.length)).toEqual(contents.map((one) => one.length))
    expect(answers.every((one, i) => one === contents[i])).toBe(true)
    // More in all than was ever granted at once: so what was read has been given back.
    for (let i = 0; i < 8; i += 1) await connection.call('/x', message(contents[i]!), text, options)
  })

  test('fields of every kind are read: long, strange, remembered, forgotten, in several frames', async () => {
    const said: string[] = []
    const { connection } = await connected((stream) => {
      const { length } = said
      const error = `${'é%~^|\u0001 "quoted" {x}'.repeat(length)} number ${length}`
      said.push(error)
      const head = { ':status': 200, 'grpc-status': '9', 'grpc-message': encodeURIComponent(error) }
      stream.respond({ ...head, [`x-${length}`]: 'remember me '.repeat(40 * length) }, { endStream: true })
    })
    for (let i = 0; i < 40; i += 1) {
      const error: unknown = await connection.call('/x', message(''), text, options).catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(RpcError)
      expect((error as RpcError).status).toBe(9)
      expect((error as RpcError).message).toBe(said.at(-1))
    }
  })

  test('a thousand calls at once each get their own answer', async () => {
    const { connection } = await connected((stream, body) => setImmediate(() => reply(stream, body.subarray(5))))
    const names = Array.from({ length: 1_000 }, (_, i) => `call ${i}`)
    // Node's server takes a hundred or so at a time by default, etcd as many as come.
    for (let at = 0; at < names.length; at += 100) {
      const part = names.slice(at, at + 100)
      const answers = await Promise.all(part.map((name) => connection.call('/x', message(name), text, options)))
      expect(answers).toEqual(part)
    }
  })

  test('a call that the server breaks off, and one without a status, fail alone', async () => {
    const { connection } = await connected((stream, body) => {
      const said = body.subarray(7).toString('latin1')
      if (said === 'break') return stream.close(2)
      if (said === 'half') return stream.respond({ ':status': 200 }, { endStream: true })
      reply(stream, body.subarray(5))
    })
    const calls = ['good', 'break', 'half', 'fine'].map((one) => connection.call('/x', message(one), text, options))
    const results = await Promise.allSettled(calls)
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled'])
    expect(connection.usable).toBe(true)
  })

  test('a server that leaves finishes what it began; the connection takes nothing new and ends', async () => {
    const { connection, sessions } = await connected((stream, body) => {
      sessions[0]!.close()
      setTimeout(() => reply(stream, body.subarray(5)), 50)
    })
    const begun = connection.call('/x', message('begun'), text, options)
    await expect.poll(() => connection.usable, { timeout: 5_000 }).toBe(false)
    await expect(connection.call('/x', message('late'), text, options)).rejects.toThrow('closed')
    expect(await begun).toBe('begun')
    await connection.closed
  })

  test('a connection that breaks fails what is under way, and says why', async () => {
    const { connection, sessions } = await connected(() => undefined)
    const calls = [1, 2].map(() => connection.call('/x', message('x'), text, options))
    const ended = new Promise<Error>((resolve) => connection.stream('/watch', undefined, () => undefined, resolve))
    await expect.poll(() => sessions.length, { timeout: 5_000 }).toBe(1)
    const settled = Promise.allSettled(calls)
    sessions[0]!.destroy()
    expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(await ended).toBeInstanceOf(RpcError)
    expect(await connection.closed).toBeInstanceOf(Error)
  })

  test('a call without an answer ends at its time limit, and the others go on', async () => {
    const { connection } = await connected((stream, body) => {
      if (body.length < 10) reply(stream, body.subarray(5))
    })
    await expect(connection.call('/x', message('no answer'), text, { timeoutMs: 200 })).rejects.toThrow('within 200 ms')
    expect(await connection.call('/x', message('a'), text, options)).toBe('a')
  })

  test('what is no HTTP/2 server is told at once', async () => {
    for (const greeting of ['HTTP/1.1 400 Bad Request\r\n\r\n', '220 hello\r\n', '']) {
      const other = createPlainServer((socket) => socket.end(greeting))
      await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
      cleanups.push(() => other.close())
      const { port } = other.address() as AddressInfo
      await expect(Connection.open({ host: '127.0.0.1', port }, 5_000)).rejects.toThrow(/HTTP\/2|closed|ECONNRESET/)
    }
  })

  test.each([
    ['asks for a sign of life', [0, 0, 0, 0, 0, 0, 0, 0]],
    ['measures the line, as a Go server does', [2, 4, 16, 16, 9, 14, 7, 7]],
  ])('a ping that %s is answered', async (_, bytes) => {
    const { sessions, connection } = await connected((stream, body) => reply(stream, body.subarray(5)))
    await connection.call('/some/Call', message('hello'), text, options)
    const answer = await new Promise<Buffer>((resolve, reject) => {
      sessions[0]?.ping(Buffer.from(bytes), (error, __, payload) => (error === null ? resolve(payload) : reject(error)))
    })
    expect([...answer]).toEqual(bytes)
  })
})
