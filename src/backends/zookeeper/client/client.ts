import type { Reader } from './jute.js'
import { ZooKeeperError, CODE } from './errors.js'
import {
  type Acl,
  encode,
  type Mode,
  type MultiResult,
  type MultiStep,
  OP,
  readMulti,
  readStat,
  type Stat,
} from './protocol.js'
import { Session, type SessionEvents, type SessionOptions } from './session.js'
import type { Watcher } from './watches.js'

export interface Created {
  /** The node's path, with the number that the server gave it. */
  readonly path: string
  readonly stat: Stat
}

export interface Data {
  readonly data: Buffer
  readonly stat: Stat
}

/** Called once, in the order in which the requests were made: so what it notes is never older than what is there. */
export type Reply<T> = (error: ZooKeeperError | undefined, value: T | undefined) => void

/** `zxid` is the transaction's own number: the czxid of every node that it created. */
export type MultiReply = (error: ZooKeeperError | undefined, results: MultiResult[] | undefined, zxid: bigint) => void

/**
 * A small ZooKeeper client: what a lock needs, and no more.
 *
 * Requests are pipelined: they are done by the server in the order in which they are made, and answered in
 * that order, so a read that is made right after a write sees it, without waiting for its answer.
 */
export class ZooKeeperClient {
  readonly session: Session

  constructor(options: SessionOptions, events: SessionEvents) {
    this.session = new Session(options, events)
  }

  create(path: string, data: Uint8Array, acl: readonly Acl[], mode: Mode, reply: Reply<Created>): void {
    this.session.request(
      `create ${path}`,
      true,
      (xid) => encode.create(xid, path, data, acl, mode),
      answer(reply, (reader) => ({ path: reader.text(), stat: readStat(reader) })),
    )
  }

  delete(path: string, reply: Reply<true>): void {
    this.session.request(
      `delete ${path}`,
      true,
      (xid) => encode.delete(xid, path, -1),
      answer<true>(reply, () => true),
    )
  }

  /** With a watcher: told once when the node changes or goes. No watch is left where there is no node. */
  getData(path: string, watcher: Watcher | undefined, reply: Reply<Data>): void {
    const { watches } = this.session
    if (watcher !== undefined && this.session.state === 'connected') watches.add('data', path, watcher)
    this.session.request(
      `read ${path}`,
      false,
      (xid) => encode.read(xid, OP.getData, path, watcher !== undefined),
      answer<Data>(
        (error, value) => {
          if (error !== undefined && watcher !== undefined) watches.remove('data', path, watcher)
          reply(error, value)
        },
        (reader) => ({ data: Buffer.from(reader.buffer()), stat: readStat(reader) }),
      ),
    )
  }

  /** With a watcher: told once when the node comes, changes or goes. `undefined`: there is none. */
  exists(path: string, watcher: Watcher | undefined, reply: Reply<Stat>): void {
    const { watches } = this.session
    if (watcher !== undefined && this.session.state === 'connected') watches.add('exist', path, watcher)
    this.session.request(
      `look for ${path}`,
      false,
      (xid) => encode.read(xid, OP.exists, path, watcher !== undefined),
      answer((error, value) => {
        if (error?.code === CODE.noNode) return reply(undefined, undefined)
        if (watcher !== undefined) {
          if (error === undefined) watches.exists(path, watcher)
          else watches.remove('exist', path, watcher)
        }
        reply(error, value)
      }, readStat),
    )
  }

  /** With a watcher: told once when a child comes or goes. */
  getChildren(path: string, watcher: Watcher | undefined, reply: Reply<string[]>): void {
    const { watches } = this.session
    if (watcher !== undefined && this.session.state === 'connected') watches.add('child', path, watcher)
    this.session.request(
      `list ${path}`,
      false,
      (xid) => encode.read(xid, OP.getChildren, path, watcher !== undefined),
      answer<string[]>(
        (error, value) => {
          if (error !== undefined && watcher !== undefined) watches.remove('child', path, watcher)
          reply(error, value)
        },
        (reader) => reader.vector(() => reader.text()),
      ),
    )
  }

  /** All steps or none. It fails with the error of the step that was to blame. */
  multi(steps: readonly MultiStep[], reply: MultiReply): void {
    this.session.request(
      `multi of ${steps.length}`,
      true,
      (xid) => encode.multi(xid, steps),
      (error, reader, zxid) => {
        if (error !== undefined) return reply(error, undefined, zxid)
        const results = readMulti(reader)
        const blame = results.find((result) => result.op === 'error' && result.error !== 0 && result.error !== -2)
        if (blame?.op !== 'error') return reply(undefined, results, zxid)
        const step = steps[results.indexOf(blame)]!
        reply(new ZooKeeperError(blame.error, `multi ${step.op} ${step.path}`), undefined, zxid)
      },
    )
  }

  /** Everything that was committed before is seen by what is asked after it; the leader takes part. */
  sync(reply: Reply<true>): void {
    this.session.request(
      'sync',
      true,
      (xid) => encode.sync(xid, '/'),
      answer<true>(reply, () => true),
    )
  }
}

function answer<T>(
  reply: Reply<T>,
  read: (reader: Reader) => T,
): (error: ZooKeeperError | undefined, reader: Reader) => void {
  return (error, reader) => (error === undefined ? reply(undefined, read(reader)) : reply(error, undefined))
}

/** The same as a promise, where the order of answers does not matter. */
export function answered<T>(request: (reply: Reply<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    request((error, value) => (error === undefined ? resolve(value as T) : reject(error)))
  })
}

/** The same, where a node that is not there is an answer and no error. */
export function found<T>(request: (reply: Reply<T>) => void): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    request((error, value) => (error === undefined || error.code === CODE.noNode ? resolve(value) : reject(error)))
  })
}
