import type { Holder, JoinRequest, LeaveRequest, RenewRequest } from '../../core/backend.js'
import { lineText } from '../../core/line.js'
import { plainArray, sparse, textArray } from './arrays.js'

/** A batch as one statement: the arrays of join.sql, renew.sql and leave.sql. */
export interface Call {
  readonly text: string
  readonly values: (string | null)[]
}

/** Orders as the server wrote them, or as core knows them. */
type WithOrder<Request> = Omit<Request, 'order'> & { readonly order?: bigint | string | undefined }

export function joinStatement(schema: string, requests: readonly JoinRequest[], inbox: string): Call {
  const { lines, slots } = distinctLines(requests)
  const groups = new Map<string, string>()
  const group = ({ group }: JoinRequest): string | null => {
    if (group === undefined) return null
    if (!groups.has(group)) groups.set(group, String(groups.size + 1))
    return groups.get(group) ?? null
  }
  return {
    text: callText(schema, 'join_1', 13),
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

export function renewStatement(schema: string, tickets: readonly WithOrder<RenewRequest>[], inbox: string): Call {
  return {
    text: callText(schema, 'renew_1', 9),
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

export function leaveStatement(schema: string, tickets: readonly WithOrder<LeaveRequest>[]): Call {
  const { lines, slots } = distinctLines(tickets)
  return {
    text: callText(schema, 'leave_1', 7),
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

const texts = new Map<string, string>()

function callText(schema: string, procedure: string, count: number): string {
  const key = `${schema}.${procedure}`
  let text = texts.get(key)
  if (text === undefined) {
    const places = Array.from({ length: count }, (_, i) => `$${i + 1}`).join(', ')
    text = `CALL "${schema}".${procedure}(NULL, ${places})`
    texts.set(key, text)
  }
  return text
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
