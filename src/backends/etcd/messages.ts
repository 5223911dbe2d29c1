/** etcd's other messages, as far as a lock needs them: leases, watches and the login. */
import { type Header, readHeader, readKeyValue } from './txn.js'
import { type Reader, Writer } from './wire.js'

export interface LeaseAnswer {
  readonly header: Header
  readonly id: bigint
  /** In seconds; 0 or less: there is no such lease (any more). */
  readonly ttl: number
}

export interface WatchAnswer {
  readonly watchId: number
  /** The watch is in force now; it tells of all that changes after the header's revision. */
  readonly created: boolean
  readonly revision: bigint
  readonly canceled: boolean
  /** Above 0: the watch asked for a past that the server has forgotten. */
  readonly compactRevision: bigint
  readonly reason: string
  readonly changes: readonly Change[]
}

/** A key that was put or deleted. */
export interface Change {
  /** The new value; empty when it was deleted. */
  readonly value: string
  readonly deleted: boolean
  readonly revision: bigint
}

export function leaseGrantRequest(ttlSeconds: number): Buffer {
  return new Writer().int(1, ttlSeconds).finish()
}

/** Keep-alive, revoke and time-to-live all ask with the lease's id alone. */
export function leaseRequest(id: bigint): Buffer {
  return new Writer().int(1, id).finish()
}

export function authenticateRequest(name: string, password: string): Buffer {
  return new Writer().bytes(1, name, 'utf8').bytes(2, password, 'utf8').finish()
}

export function watchCreateRequest(watch: {
  readonly id: number
  readonly key: string
  readonly rangeEnd?: string
  readonly fromRevision: bigint
  readonly deletesOnly: boolean
}): Buffer {
  return new Writer()
    .message(1, (inner) => {
      inner.bytes(1, watch.key).bytes(2, watch.rangeEnd ?? '')
      inner.int(3, watch.fromRevision)
      // Filter 0 is "no puts": a packed list of that one number.
      if (watch.deletesOnly) inner.bytes(5, '\0')
      inner.int(7, watch.id)
    })
    .finish()
}

export function watchCancelRequest(id: number): Buffer {
  return new Writer().message(2, (inner) => inner.int(1, id)).finish()
}

/** The answers to grant, keep-alive and time-to-live all begin alike. */
export function readLease(reader: Reader): LeaseAnswer {
  let header: Header = { revision: 0n, term: 0n }
  let id = 0n
  let ttl = 0n
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) header = readHeader(reader.message())
    else if (field === 2) id = reader.big()
    else if (field === 3) ttl = reader.big()
    else reader.skip()
  }
  return { header, id, ttl: Number(ttl) }
}

export function readToken(reader: Reader): string {
  let token = ''
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 2) token = reader.text()
    else reader.skip()
  }
  return token
}

export function readWatch(reader: Reader): WatchAnswer {
  const changes: Change[] = []
  const answer = {
    watchId: 0,
    created: false,
    revision: 0n,
    canceled: false,
    compactRevision: 0n,
    reason: '',
    changes,
  }
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    // A watch that the server could not make is answered with the id -1.
    if (field === 1) answer.revision = readHeader(reader.message()).revision
    else if (field === 2) answer.watchId = Number(reader.big())
    else if (field === 3) answer.created = reader.number() === 1
    else if (field === 4) answer.canceled = reader.number() === 1
    else if (field === 5) answer.compactRevision = reader.big()
    else if (field === 6) answer.reason = reader.text()
    else if (field === 11) changes.push(readChange(reader.message()))
    else reader.skip()
  }
  return answer
}

function readChange(reader: Reader): Change {
  let value = ''
  let revision = 0n
  let deleted = false
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) deleted = reader.number() === 1
    else if (field === 2) ({ value, mod: revision } = readKeyValue(reader.message()))
    else reader.skip()
  }
  return { value, deleted, revision }
}
