import type { Holder, JoinRequest, LeaveRequest, RenewRequest } from '../../core/backend.js'
import { lineText } from '../../core/line.js'
import { plainArray, sparse, textArray } from './arrays.js'
import type { Prepared } from './prepared.js'

/** A batch as one statement: the arguments of a procedure of calls.sql. */
export interface Call {
  readonly statement: Prepared
  readonly values: (string | null)[]
}

/** Orders as the server wrote them, or as core knows them. */
type WithOrder<Request> = Omit<Request, 'order'> & { readonly order?: bigint | string | undefined }

export function joinCall(schema: string, requests: readonly JoinRequest[], inbox: string): Call {
  const [first] = requests
  if (requests.length === 1 && first !== undefined && !first.takeover && first.group === undefined) {
    return joinOne(schema, first, inbox)
  }
  const { lines, slots } = distinctLines(requests)
  const groups = new Map<string, string>()
  const group = ({ group }: JoinRequest): string | null => {
    if (group === undefined) return null
    if (!groups.has(group)) groups.set(group, String(groups.size + 1))
    return groups.get(group) ?? null
  }
  return {
    statement: procedure(schema, 'join_1', 13),
    values: [
      textArray(lines),
      plainArray(slots),
      textArray(requests.map(({ id }) => id)),
      plainArray(requests.map(({ weight }) => weight)),
      plainArray(requests.map(({ capacity }) => capacity)),
      plainArray(requests.map(({ wait }) => wait)),
      plainArray(requests.map(({ ttlMs }) => Math.ceil(ttlMs))),
      plainArray(requests.map(({ waitTtlMs }) => Math.ceil(waitTtlMs))),
      textArray(requests.map(({ holder }) => holderText(holder))),
      inbox,
      sparse(requests, group, plainArray),
      sparse(requests, ({ takeover, holder }) => (takeover ? ownerStart(holder) : null), textArray),
      sparse(requests, ({ takeover, holder }) => (takeover ? clientStart(holder) : null), textArray),
    ],
  }
}

/** One ticket: most calls of a quiet client. Plain values, which the server reads in a fraction of the time of arrays. */
function joinOne(schema: string, request: JoinRequest, inbox: string): Call {
  const { line, id, weight, capacity, wait, ttlMs, waitTtlMs, holder } = request
  return {
    statement: procedure(schema, 'join_one_1', 9),
    values: [
      lineText(line),
      id,
      String(weight),
      String(capacity),
      String(wait),
      String(Math.ceil(ttlMs)),
      String(Math.ceil(waitTtlMs)),
      holderText(holder),
      inbox,
    ],
  }
}

export function renewCall(schema: string, tickets: readonly WithOrder<RenewRequest>[], inbox: string): Call {
  return {
    statement: procedure(schema, 'renew_1', 9),
    values: [
      textArray(tickets.map(({ line }) => lineText(line))),
      textArray(tickets.map(({ id }) => id)),
      textArray(tickets.map(({ handle }) => handle)),
      plainArray(tickets.map(({ order }) => order ?? null)),
      plainArray(tickets.map(({ ttlMs }) => Math.ceil(ttlMs))),
      plainArray(tickets.map(({ waitTtlMs }) => Math.ceil(waitTtlMs))),
      sparse(tickets, ({ nextHandle }) => nextHandle ?? null, textArray),
      sparse(tickets, ({ nextHolder }) => (nextHolder === undefined ? null : holderText(nextHolder)), textArray),
      inbox,
    ],
  }
}

export function leaveCall(schema: string, tickets: readonly WithOrder<LeaveRequest>[]): Call {
  const [first] = tickets
  if (tickets.length === 1 && first?.handle !== undefined && first.order !== undefined && isPlain(first)) {
    const values = [lineText(first.line), first.id, first.handle, String(first.order)]
    return { statement: procedure(schema, 'leave_one_1', 4), values }
  }
  const { lines, slots } = distinctLines(tickets)
  return {
    statement: procedure(schema, 'leave_1', 7),
    values: [
      textArray(lines),
      plainArray(slots),
      textArray(tickets.map(({ id }) => id)),
      textArray(tickets.map(({ handle }) => handle ?? null)),
      plainArray(tickets.map(({ order }) => order ?? null)),
      sparse(tickets, ({ keepMs }) => (keepMs > 0 ? String(Math.ceil(keepMs)) : null), plainArray),
      sparse(tickets, ({ tombstoneMs }) => (tombstoneMs > 0 ? String(Math.ceil(tombstoneMs)) : null), plainArray),
    ],
  }
}

/** Nothing stays behind: no place that keeps others out, no tombstone. */
function isPlain({ keepMs, tombstoneMs }: { readonly keepMs: number; readonly tombstoneMs: number }): boolean {
  return keepMs <= 0 && tombstoneMs <= 0
}

const statements = new Map<string, Prepared>()

function procedure(schema: string, procedureName: string, count: number): Prepared {
  const key = `${schema}.${procedureName}`
  let statement = statements.get(key)
  if (statement === undefined) {
    const places = Array.from({ length: count }, (_, i) => `$${i + 1}`).join(', ')
    const text = `CALL "${schema}".${procedureName}(NULL, ${places})`
    statement = { name: `holdfast_${procedureName}_${schema}`, text }
    statements.set(key, statement)
  }
  return statement
}

/** The distinct lines of a batch, and for each item which of them (counted from 1) is its own. */
function distinctLines(items: readonly { readonly line: Parameters<typeof lineText>[0] }[]): {
  lines: string[]
  slots: number[]
} {
  const places = new Map<string, number>()
  const slots = items.map(({ line }) => {
    const text = lineText(line)
    const place = places.get(text) ?? places.size + 1
    places.set(text, place)
    return place
  })
  return { lines: [...places.keys()], slots }
}

/** JSON with the owner first and the client second: so the start of the text says whose it is (see `takeover`). */
function holderText({ owner, client, ...rest }: Holder): string {
  return JSON.stringify({ owner, client, ...rest })
}

function ownerStart({ owner }: Holder): string {
  return `{"owner":${JSON.stringify(owner)},`
}

function clientStart({ owner, client }: Holder): string {
  return `{"owner":${JSON.stringify(owner)},"client":${JSON.stringify(client)},`
}
