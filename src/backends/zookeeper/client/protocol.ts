/** The requests and replies of ZooKeeper's wire protocol that a lock needs. */
import { type Reader, Writer } from './jute.js'

export const OP = {
  create: 1,
  delete: 2,
  exists: 3,
  getData: 4,
  getChildren: 8,
  sync: 9,
  check: 13,
  multi: 14,
  create2: 15,
  createContainer: 19,
  auth: 100,
  setWatches: 101,
  closeSession: -11,
} as const

/** Numbers of replies that answer no ordinary request. */
export const XID = { notification: -1, auth: -4, setWatches: -8 } as const

/** How a node is created. A container is removed by the server once it has had children and has none. */
export const MODE = { persistent: 0, ephemeral: 1, ephemeralSequential: 3, container: 4 } as const
export type Mode = (typeof MODE)[keyof typeof MODE]

export interface Acl {
  readonly perms: number
  readonly scheme: string
  readonly id: string
}

/** Everyone may do everything. */
export const OPEN_ACL: readonly Acl[] = [{ perms: 31, scheme: 'world', id: 'anyone' }]
/** Whoever was authenticated when creating may do everything, nobody else anything. */
export const CREATOR_ACL: readonly Acl[] = [{ perms: 31, scheme: 'auth', id: '' }]

export interface Stat {
  /** The transaction that created the node: unique, and larger than that of any earlier node. */
  readonly czxid: bigint
  /** When it was created, by the wall clock of the server that led. */
  readonly ctime: bigint
  readonly version: number
  readonly cversion: number
  /** The session that owns an ephemeral node; 0n for others. */
  readonly ephemeralOwner: bigint
  readonly numChildren: number
}

export function readStat(reader: Reader): Stat {
  const czxid = reader.long()
  reader.skip(8) // mzxid
  const ctime = reader.long()
  reader.skip(8) // mtime
  const version = reader.int()
  const cversion = reader.int()
  reader.skip(4) // aversion
  const ephemeralOwner = reader.long()
  reader.skip(4) // dataLength
  const numChildren = reader.int()
  reader.skip(8) // pzxid
  return { czxid, ctime, version, cversion, ephemeralOwner, numChildren }
}

/** One step of a multi. */
export type MultiStep =
  | {
      readonly op: 'create'
      readonly path: string
      readonly data: Uint8Array
      readonly acl: readonly Acl[]
      readonly mode: Mode
    }
  | { readonly op: 'delete'; readonly path: string; readonly version: number }
  | { readonly op: 'check'; readonly path: string; readonly version: number }

/** What became of one step: when any failed, none was done, and `error` is 0 or tells which step was to blame. */
export type MultiResult =
  | { readonly op: 'create'; readonly path: string; readonly stat: Stat | undefined }
  | { readonly op: 'done' }
  | { readonly op: 'error'; readonly error: number }

function writeCreate(writer: Writer, path: string, data: Uint8Array, acl: readonly Acl[], mode: Mode): Writer {
  return writer
    .text(path)
    .buffer(data)
    .vector(acl, ({ perms, scheme, id }) => writer.int(perms).text(scheme).text(id))
    .int(mode)
}

/** Makes the packet of each request; `xid` pairs it with its reply. */
export const encode = {
  connect(lastZxid: bigint, timeoutMs: number, session: bigint, password: Uint8Array): Buffer {
    // Version 0, and never a read-only server: it cannot take part in a lock.
    return new Writer().int(0).long(lastZxid).int(timeoutMs).long(session).buffer(password).bool(false).packet()
  },
  create(xid: number, path: string, data: Uint8Array, acl: readonly Acl[], mode: Mode): Buffer {
    const op = mode === MODE.container ? OP.createContainer : OP.create2
    return writeCreate(new Writer().int(xid).int(op), path, data, acl, mode).packet()
  },
  delete: (xid: number, path: string, version: number): Buffer =>
    new Writer().int(xid).int(OP.delete).text(path).int(version).packet(),
  read: (xid: number, op: number, path: string, watch: boolean): Buffer =>
    new Writer().int(xid).int(op).text(path).bool(watch).packet(),
  sync: (xid: number, path: string): Buffer => new Writer().int(xid).int(OP.sync).text(path).packet(),
  auth: (scheme: string, auth: Uint8Array): Buffer =>
    new Writer().int(XID.auth).int(OP.auth).int(0).text(scheme).buffer(auth).packet(),
  closeSession: (xid: number): Buffer => new Writer().int(xid).int(OP.closeSession).packet(),
  setWatches(zxid: bigint, data: readonly string[], exist: readonly string[], child: readonly string[]): Buffer {
    const writer = new Writer().int(XID.setWatches).int(OP.setWatches).long(zxid)
    for (const paths of [data, exist, child]) writer.vector(paths, (path) => writer.text(path))
    return writer.packet()
  },
  multi(xid: number, steps: readonly MultiStep[]): Buffer {
    const writer = new Writer().int(xid).int(OP.multi)
    for (const step of steps) {
      const op = step.op === 'create' ? OP.create2 : OP[step.op]
      writer.int(op).bool(false).int(-1)
      if (step.op === 'create') writeCreate(writer, step.path, step.data, step.acl, step.mode)
      else writer.text(step.path).int(step.version)
    }
    return writer.int(-1).bool(true).int(-1).packet()
  },
}

export interface ConnectReply {
  /** 0 or less: the server does not know the session any more. */
  readonly timeoutMs: number
  readonly session: bigint
  readonly password: Buffer
  readonly readOnly: boolean
}

export function readConnect(reader: Reader): ConnectReply {
  reader.int() // protocol version
  const timeoutMs = reader.int()
  const session = reader.long()
  const password = Buffer.from(reader.buffer())
  return { timeoutMs, session, password, readOnly: reader.left > 0 && reader.bool() }
}

export function readMulti(reader: Reader): MultiResult[] {
  const results: MultiResult[] = []
  for (;;) {
    const type = reader.int()
    const done = reader.bool()
    reader.int() // the error once more
    if (done) return results
    if (type === OP.create2) results.push({ op: 'create', path: reader.text(), stat: readStat(reader) })
    // Servers before 3.9 answer every creation in a multi in the old way, which says nothing but the path.
    else if (type === OP.create) results.push({ op: 'create', path: reader.text(), stat: undefined })
    else if (type === -1) results.push({ op: 'error', error: reader.int() })
    else results.push({ op: 'done' })
  }
}

/** What happened to a watched node. */
export const EVENT = { created: 1, deleted: 2, changed: 3, children: 4 } as const

export interface WatchEvent {
  readonly type: number
  readonly path: string
}

export function readEvent(reader: Reader): WatchEvent {
  const type = reader.int()
  reader.int() // the server's idea of the connection's state
  return { type, path: reader.text() }
}
