import type { Holder, LineView, TicketView } from '../../core/backend.js'
import { BackendError } from '../../core/errors.js'
import { KINDS } from '../../core/line.js'
import { flagOf, type Reply } from './client/reply.js'
import { isMiss, type LineStore, type Snapshot, valueOf } from './line-store.js'
import { decode, type LineValue } from './line-value.js'

/** The live tickets of every line of that name. */
export async function viewName(store: LineStore, name: string): Promise<LineView[]> {
  const { snapshots } = await store.read(KINDS.map((kind) => ({ kind, name })))
  const views = await Promise.all(
    snapshots.map(async (snapshot) => ({ line: snapshot.line, tickets: await viewTickets(store, snapshot) })),
  )
  return views.filter(({ tickets }) => tickets.length > 0)
}

async function viewTickets(store: LineStore, { value, connection }: Snapshot): Promise<TicketView[]> {
  const { entries } = value
  const replies = await connection.send(entries.map((entry) => `mg ${store.keys.life(entry)} v t`))
  const tickets: TicketView[] = []
  for (const [index, { id, order, weight, capacity, left }] of entries.entries()) {
    const reply = replies[index]!
    const lived = valueOf(reply)
    if (lived === undefined) continue
    const holder = JSON.parse(lived.toString('utf8')) as Holder
    const remainingMs = Number(flagOf(reply, 't')) * 1_000
    tickets.push({ id, order: BigInt(order), weight, capacity, holder, left, remainingMs })
  }
  return tickets
}

/** How many lines are read at a time while names are listed. */
const PAGE = 100

/**
 * The names in use on one server. memcached has no list of keys but the dump of its crawler, which goes through
 * all that it holds, ours or not: for people who look, not for programs that do so often.
 */
export async function* namesOn(store: LineStore, prefix: string): AsyncGenerator<string> {
  const keys = await dumpKeys(store)
  for (let start = 0; start < keys.length; start += PAGE) {
    const connection = await store.link.connection()
    const page = keys.slice(start, start + PAGE)
    for (const reply of await connection.send(page.map((key) => `mg ${key} v`))) {
      const value = lineIn(reply)
      if (value?.name.startsWith(prefix) !== true || value.entries.length === 0) continue
      const lives = await connection.send(value.entries.map((entry) => `mg ${store.keys.life(entry)}`))
      if (lives.some((life) => !isMiss(life))) yield value.name
    }
  }
}

/** The line under a key; undefined when it is gone, or when what is there is not a line of ours. */
function lineIn(reply: Reply): LineValue | undefined {
  const bytes = valueOf(reply)
  if (bytes === undefined) return undefined
  try {
    return decode(bytes)
  } catch {
    return undefined
  }
}

/** memcached's crawler does one thing at a time, and now and then something of its own. */
const BUSY_TRIES = 40
const BUSY_PAUSE_MS = 50

/** The keys of all lines on a server. */
async function dumpKeys(store: LineStore): Promise<string[]> {
  const lines = await dump(store, 'hash').catch((error: unknown) => {
    // An older server knows only the walk along its LRU lists, which can miss what moves between them meanwhile.
    if (error instanceof BackendError && error.message.includes('CLIENT_ERROR')) return dump(store, 'all')
    throw error
  })
  return lines.map((line) => keyIn(line, store)).filter((key) => key !== undefined)
}

/** The key that a line of the dump names, when it is that of a line of ours. */
function keyIn({ code }: Reply, { keys }: LineStore): string | undefined {
  return code.startsWith('key=') ? keys.lineFrom(code.slice(4)) : undefined
}

// On a connection of its own: no renewal waits behind a long answer.
async function dump(store: LineStore, how: 'hash' | 'all'): Promise<Reply[]> {
  const connection = await store.link.another()
  try {
    for (let tries = 1; ; tries += 1) {
      const ours = (line: Reply): boolean => keyIn(line, store) !== undefined
      const lines = await connection.list(`lru_crawler metadump ${how}`, ours)
      const last = lines.at(-1)
      if (last?.code === 'END') return lines
      if (last?.code !== 'BUSY' || tries >= BUSY_TRIES) {
        const text = [last?.code, ...(last?.words ?? [])].join(' ')
        throw new BackendError(`memcached did not list its keys: ${text}. Try again in a moment.`, { retryable: true })
      }
      await new Promise((resolve) => setTimeout(resolve, BUSY_PAUSE_MS))
    }
  } finally {
    connection.close()
  }
}
