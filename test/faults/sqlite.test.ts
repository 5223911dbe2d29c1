import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'libsql'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { connect } from '../../src/connect.js'
import type { Holdfast } from '../../src/core/holdfast.js'

/** A process that does what it is told to a backend of what was built, as a user's process would. */
const CHILD = `
const { sqlite } = await import(process.env.DIST + '/backends/sqlite/index.js')
const { default: Database } = await import('libsql')
const plain = (key, value) => (typeof value === 'bigint' ? String(value) : value)
let backend, db
const does = {
  open: (path) => (backend = sqlite(path)).open({ granted() {}, lost() {}, moved() {}, unsure() {} }),
  join: (request) => backend.join([{ ...request, holder: { ...request.holder, pid: process.pid } }]),
  name: (ref, also) => backend.renew([{ ...ref, nextHolder: { owner: 'o', client: 'c', host: 'h', pid: process.pid, also } }]),
  leave: (request) => backend.leave([request]),
  begin: (path) => void (db = new Database(path)).exec('BEGIN IMMEDIATE'),
  fill: async (request) => {
    for (let i = 0; ; i += 1) await backend.join(Array.from({ length: 50 }, (_, k) => ({ ...request, id: request.id + i + '-' + k, line: { kind: 'mutex', name: 'n' + i + k } })))
  },
  hammer: async (request) => {
    for (let i = 0; ; i += 1) {
      const own = { ...request, id: request.id + i, holder: { ...request.holder, pid: process.pid } }
      await backend.join([own]).catch(() => {})
      await backend.leave([{ line: own.line, id: own.id, handle: own.id, keepMs: 0, tombstoneMs: 0 }]).catch(() => {})
    }
  },
}
process.on('message', async ([what, ...args]) => {
  try {
    process.send(JSON.stringify({ result: await does[what](...args) }, plain))
  } catch (error) {
    process.send(JSON.stringify({ error: { ...error, message: error.message } }))
  }
})
process.on('disconnect', () => process.exit())
process.send('{}')
`
const DIST = new URL('../../dist', import.meta.url).href

interface Answer {
  readonly result?: { readonly state: string; readonly order?: string }[]
  readonly error?: { readonly message: string; readonly code: string; readonly retryable: boolean }
}

let folder: string
let path: string
let children: ChildProcess[] = []
let client: Holdfast

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
  path = join(folder, 'locks.db')
})

afterEach(async () => {
  for (const child of children) child.kill('SIGKILL')
  children = []
  await client?.close()
  rmSync(folder, { recursive: true, force: true })
})

async function start(options: { uid?: number; through?: readonly string[] } = {}): Promise<ChildProcess> {
  const words = [...(options.through ?? []), process.execPath, '--input-type=module', '-e', CHILD]
  const child = spawn(words[0]!, words.slice(1), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, DIST },
    ...(options.uid === undefined ? undefined : { uid: options.uid, gid: options.uid }),
  })
  children.push(child)
  await once(child, 'message')
  return child
}

async function ask(child: ChildProcess, ...message: unknown[]): Promise<Answer> {
  child.send(message)
  const [text] = (await once(child, 'message')) as [string]
  return JSON.parse(text) as Answer
}

/** As core does: a file that is busy is asked again. */
async function insist(child: ChildProcess, ...message: unknown[]): Promise<Answer> {
  const answer = await ask(child, ...message)
  return answer.error?.retryable === true ? await insist(child, ...message) : answer
}

async function starter(options?: { uid?: number; through?: readonly string[] }): Promise<ChildProcess> {
  const child = await start(options)
  expect(await ask(child, 'open', path)).toEqual({})
  return child
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

function request(
  name: string,
  more: object = {},
): { id: string; line: { kind: 'mutex'; name: string }; holder: object } {
  const holder = { owner: 'o', client: 'c', host: 'h' }
  const usual = { weight: 1, capacity: 1, wait: true, ttlMs: 60_000, waitTtlMs: 60_000, holder, takeover: false }
  return { line: { kind: 'mutex', name }, id: randomUUID(), ...usual, ...more }
}

/** A process that does nothing but live. */
async function sleeper(): Promise<ChildProcess> {
  const child = spawn('sleep', ['600'])
  children.push(child)
  await once(child, 'spawn')
  return child
}

describe('kill -9', () => {
  test('of a holder is noticed long before its ttl', async () => {
    const holder = await starter()
    client = await connect(`sqlite:${path}`)
    expect((await insist(holder, 'join', request('x'))).result?.[0]?.state).toBe('granted')
    expect(await client.lock('x').tryAcquire()).toBeUndefined()
    const waiting = client.lock('x').acquire({ wait: '30s' })
    await kill(holder)
    const lease = await waiting
    expect(lease.fence).toBe(2n)
    await lease.release()
  })

  test('of a holder whose named child lives on: the ticket stands until the child is gone, too', async () => {
    const [holder, companion] = [await starter(), await sleeper()]
    client = await connect(`sqlite:${path}`)
    await insist(
      holder,
      'join',
      request('x', { holder: { owner: 'o', client: 'c', host: 'h', also: [companion.pid] } }),
    )
    await kill(holder)
    expect(await client.lock('x').tryAcquire()).toBeUndefined()
    const waiting = client.lock('x').acquire({ wait: '30s' })
    await kill(companion)
    await (await waiting).release()
  })

  test('of a holder that named its child after the grant', async () => {
    const [holder, companion] = [await starter(), await sleeper()]
    client = await connect(`sqlite:${path}`)
    const ticket = request('x')
    await insist(holder, 'join', ticket)
    await insist(holder, 'name', { ...ticket, handle: ticket.id }, [companion.pid])
    await kill(holder)
    expect(await client.lock('x').tryAcquire()).toBeUndefined()
    await kill(companion)
    await (await client.lock('x').acquire({ wait: '30s' })).release()
  })

  test('after a release with minHold: it still keeps others out', async () => {
    const holder = await starter()
    client = await connect(`sqlite:${path}`)
    const ticket = request('x')
    await insist(holder, 'join', ticket)
    await insist(holder, 'leave', {
      line: ticket.line,
      id: ticket.id,
      handle: ticket.id,
      keepMs: 3_000,
      tombstoneMs: 0,
    })
    await kill(holder)
    expect(await client.lock('x').tryAcquire()).toBeUndefined()
    await (await client.lock('x').acquire({ wait: '30s' })).release()
  })

  test('of a client leaves no inbox behind, once another works', async () => {
    const dead = await starter()
    await insist(dead, 'join', request('x'))
    expect(readdirSync(`${path}-inbox`)).toHaveLength(1)
    await kill(dead)
    client = await connect(`sqlite:${path}`)
    await (await client.lock('x').acquire()).release()
    expect(readdirSync(`${path}-inbox`)).toHaveLength(1)
  })

  test('in the middle of writing, again and again: the file is whole and no line is stuck', async () => {
    client = await connect(`sqlite:${path}`)
    for (let i = 0; i < 6; i += 1) {
      const writer = await starter()
      writer.send(['hammer', request('x')])
      await new Promise((resolve) => setTimeout(resolve, 20 * i))
      await kill(writer)
      await (await client.lock('x').acquire({ wait: '30s' })).release()
    }
    const db = new Database(path)
    expect(db.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }])
    db.close()
  })
})

test('a process stopped inside a transaction stalls the file: a retryable error, and all goes on when it is gone', async () => {
  client = await connect(`sqlite:${path}`)
  const stopped = await start()
  expect(await ask(stopped, 'begin', path)).toEqual({})
  stopped.kill('SIGSTOP')
  await expect(client.lock('x').tryAcquire()).rejects.toMatchObject({
    code: 'BACKEND',
    retryable: true,
    message: expect.stringMatching(/keeps the file locked/),
  })
  const waiting = client.lock('x').acquire({ wait: '30s' })
  await kill(stopped)
  await (await waiting).release()
})

test('ten processes that make the file at once all get in, and no order twice', async () => {
  const all = await Promise.all(Array.from({ length: 10 }, () => start()))
  expect(await Promise.all(all.map((child) => ask(child, 'open', path)))).toEqual(all.map(() => ({})))
  const answers = await Promise.all(all.map((child, i) => insist(child, 'join', request(`x${i}`))))
  const orders = answers.map((answer) => Number(answer.result?.[0]?.order))
  expect(orders.sort((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
})

test('a directory that this user may not write to is a clear error, before and after the file exists', async () => {
  chmodSync(folder, 0o755)
  // Root may write anywhere, so it asks somebody else to try.
  const other = process.getuid?.() === 0 ? { uid: 65_534 } : {}
  const readOnly = join(folder, 'read-only')
  mkdirSync(readOnly)
  path = join(readOnly, 'locks.db')
  chmodSync(readOnly, 0o555)
  const text = /cannot be read and written by this user|is read-only for this user/
  const matching = { error: { code: 'BACKEND', retryable: false, message: expect.stringMatching(text) } }
  expect(await ask(await start(other), 'open', path)).toMatchObject(matching)
  chmodSync(readOnly, 0o755)
  await (await connect(`sqlite:${path}`)).close()
  chmodSync(path, 0o444)
  chmodSync(readOnly, 0o555)
  expect(await ask(await start(other), 'open', path)).toMatchObject(matching)
})

test('a full disk is a clear error, and what was held before is still held', async () => {
  // A small file system of its own, in a mount namespace that ends with the process.
  const small = `mount -t tmpfs -o size=400k none ${folder} && exec "$@"`
  const child = await starter({ through: ['unshare', '--map-root-user', '--mount', 'sh', '-c', small, 'sh'] })
  const held = request('held')
  expect((await ask(child, 'join', held)).result?.[0]?.state).toBe('granted')
  expect((await ask(child, 'fill', request('x'))).error).toMatchObject({
    code: 'BACKEND',
    retryable: false,
    message: expect.stringMatching(/the disk is full/),
  })
  const again = await ask(child, 'join', { ...request('held'), wait: false })
  // Refused, or the disk is too full to be asked: never granted.
  expect(again.result?.[0]?.state ?? again.error?.code).toMatch(/refused|BACKEND/)
})
