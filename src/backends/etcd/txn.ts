/** etcd's transactions: what a Txn asks, and what is answered. */
import { type Reader, Writer } from './wire.js'

/** A condition of a Txn. With `rangeEnd` it must hold for every key there; where there is none, for a key of zeros. */
export interface Compare {
  readonly key: string
  readonly rangeEnd?: string
  readonly target: 'version' | 'create' | 'mod' | 'lease'
  readonly is: '=' | '>' | '<'
  readonly value: bigint | number
}

export interface RangeOp {
  readonly op: 'range'
  readonly key: string
  readonly rangeEnd?: string
  readonly limit?: number
  readonly sort?: 'oldest' | 'newest'
  readonly keysOnly?: boolean
  /** Answered by the member that is asked, without asking the others: it may be behind, never wrong about the past. */
  readonly serializable?: boolean
  readonly minCreate?: bigint
  readonly maxCreate?: bigint
}

export type Op =
  | RangeOp
  | { readonly op: 'put'; readonly key: string; readonly value: string; readonly lease: bigint }
  | { readonly op: 'delete'; readonly key: string }
  | ({ readonly op: 'txn' } & Txn)

export interface Txn {
  readonly compare: readonly Compare[]
  readonly success: readonly Op[]
  readonly failure: readonly Op[]
}

export interface Header {
  readonly revision: bigint
  readonly term: bigint
}

export interface KeyValue {
  readonly key: string
  readonly create: bigint
  readonly mod: bigint
  readonly value: string
  readonly lease: bigint
}

export interface RangeAnswer {
  readonly kvs: readonly KeyValue[]
  /** How many keys are in the range, whatever `limit`, `minCreate` and `maxCreate` leave out. */
  readonly count: number
}

export interface TxnAnswer {
  readonly header: Header
  readonly succeeded: boolean
  readonly responses: readonly OpAnswer[]
}

/** The answer to one operation; what it has depends on what was asked. */
export interface OpAnswer {
  readonly range?: RangeAnswer
  readonly txn?: TxnAnswer
}

const TARGETS = { version: 0, create: 1, mod: 2, lease: 4 } as const
const TARGET_FIELDS = { version: 4, create: 5, mod: 6, lease: 8 } as const
const RESULTS = { '=': 0, '>': 1, '<': 2 } as const

export function txnRequest(txn: Txn): Buffer {
  const writer = new Writer()
  writeTxn(writer, txn)
  return writer.finish()
}

function writeTxn(writer: Writer, txn: Txn): void {
  for (const compare of txn.compare) writer.message(1, (inner) => writeCompare(inner, compare))
  for (const op of txn.success) writer.message(2, (inner) => writeOp(inner, op))
  for (const op of txn.failure) writer.message(3, (inner) => writeOp(inner, op))
}

function writeCompare(writer: Writer, compare: Compare): void {
  writer.int(1, RESULTS[compare.is]).int(2, TARGETS[compare.target]).bytes(3, compare.key)
  writer.int(TARGET_FIELDS[compare.target], compare.value)
  if (compare.rangeEnd !== undefined) writer.bytes(64, compare.rangeEnd)
}

function writeOp(writer: Writer, op: Op): void {
  if (op.op === 'range') {
    writer.message(1, (inner) => writeRange(inner, op))
  } else if (op.op === 'put') {
    writer.message(2, (inner) => inner.bytes(1, op.key).bytes(2, op.value, 'utf8').int(3, op.lease))
  } else if (op.op === 'delete') {
    writer.message(3, (inner) => inner.bytes(1, op.key))
  } else {
    writer.message(4, (inner) => writeTxn(inner, op))
  }
}

function writeRange(writer: Writer, op: RangeOp): void {
  writer.bytes(1, op.key).bytes(2, op.rangeEnd ?? '')
  writer.int(3, op.limit ?? 0)
  if (op.sort !== undefined) writer.int(5, op.sort === 'oldest' ? 1 : 2).int(6, 2)
  writer.int(7, op.serializable === true ? 1 : 0).int(8, op.keysOnly === true ? 1 : 0)
  writer.int(12, op.minCreate ?? 0).int(13, op.maxCreate ?? 0)
}

export function readTxn(reader: Reader): TxnAnswer {
  let header: Header = { revision: 0n, term: 0n }
  let succeeded = false
  const responses: OpAnswer[] = []
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) header = readHeader(reader.message())
    else if (field === 2) succeeded = reader.number() === 1
    else if (field === 3) responses.push(readOpAnswer(reader.message()))
    else reader.skip()
  }
  return { header, succeeded, responses }
}

function readOpAnswer(reader: Reader): OpAnswer {
  let answer: OpAnswer = {}
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) answer = { range: readRange(reader.message()) }
    else if (field === 4) answer = { txn: readTxn(reader.message()) }
    else reader.skip()
  }
  return answer
}

export function readHeader(reader: Reader): Header {
  let revision = 0n
  let term = 0n
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 3) revision = reader.big()
    else if (field === 4) term = reader.big()
    else reader.skip()
  }
  return { revision, term }
}

function readRange(reader: Reader): RangeAnswer {
  let count = 0
  const kvs: KeyValue[] = []
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 2) kvs.push(readKeyValue(reader.message()))
    else if (field === 4) count = reader.number()
    else reader.skip()
  }
  return { kvs, count }
}

export function readKeyValue(reader: Reader): KeyValue {
  const kv = { key: '', create: 0n, mod: 0n, value: '', lease: 0n }
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) kv.key = reader.binary()
    else if (field === 2) kv.create = reader.big()
    else if (field === 3) kv.mod = reader.big()
    else if (field === 5) kv.value = reader.text()
    else if (field === 6) kv.lease = reader.big()
    else reader.skip()
  }
  return kv
}
