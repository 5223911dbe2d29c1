import type { Holder, JoinRequest } from '../../core/backend.js'

/** What a node holds: who stands there, for people who look. */
export function encodeHolder({ holder, weight, capacity }: JoinRequest): Buffer {
  return Buffer.from(JSON.stringify({ ...holder, weight, capacity }))
}

/** The same, made once for tickets in a row that differ in nothing: as a rule those of one client do. */
export class HolderEncoder {
  #last: JoinRequest | undefined
  #data: Buffer = Buffer.alloc(0)

  encode(request: JoinRequest): Buffer {
    if (this.#last === undefined || !alike(this.#last, request)) {
      this.#data = encodeHolder(request)
      this.#last = request
    }
    return this.#data
  }
}

function alike(one: JoinRequest, other: JoinRequest): boolean {
  const [a, b] = [one.holder, other.holder]
  return (
    one.weight === other.weight &&
    one.capacity === other.capacity &&
    a.owner === b.owner &&
    a.client === b.client &&
    a.host === b.host &&
    a.pid === b.pid &&
    a.note === b.note &&
    a.also === b.also
  )
}

/** Reads a node's data; undefined when somebody else than Holdfast wrote it. */
export function decodeHolder(data: Buffer): Holder | undefined {
  let value: unknown
  try {
    value = JSON.parse(data.toString('utf8'))
  } catch {
    return undefined
  }
  if (typeof value !== 'object' || value === null) return undefined
  const { owner, client, host, pid, note, also } = value as Record<string, unknown>
  if (typeof owner !== 'string' || typeof client !== 'string') return undefined
  if (typeof host !== 'string' || typeof pid !== 'number') return undefined
  return {
    owner,
    client,
    host,
    pid,
    ...(typeof note === 'string' ? { note } : {}),
    ...(Array.isArray(also) ? { also: also.filter((one) => typeof one === 'number') } : {}),
  }
}

/** Whom a node that Holdfast did not make belongs to, as well as can be told: Curator writes an address, kazoo a name. */
export function foreignHolder(name: string, data: Buffer): Holder {
  const text = data.toString('utf8')
  const readable = text !== '' && text.length <= 256 && !/[^\x20-\x7e]/.test(text)
  return { owner: readable ? text : name, client: '', host: '', pid: 0 }
}
