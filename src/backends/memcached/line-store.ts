import { BackendError } from '../../core/errors.js'
import type { LineKey } from '../../core/line.js'
import type { Connection } from './client/connection.js'
import type { Link } from './client/link.js'
import { flagOf, type Reply } from './client/reply.js'
import { LINE_SECONDS } from './guarantees.js'
import type { Keys } from './keys.js'
import { decode, type Entry, emptyLine, encode, isEmpty, type LineValue, type Tombstone } from './line-value.js'

/** A line as it was when it was read or written. */
export interface Snapshot {
  readonly line: LineKey
  readonly value: LineValue
  /** The number that memcached gives each version of a value; undefined when there was none. */
  readonly cas: string | undefined
  /**
   * Where it was read. A restarted server counts its versions from 1 again, so that a number from before could
   * name another's value: it is only ever used on the connection that it came from, and a restart breaks that.
   */
  readonly connection: Connection
}

/** What to do with a line after seeing it. */
export type Step =
  /** Store this, with these commands sent just before; `heard` gets their replies, whether it was stored or not. */
  | { readonly write: LineValue; readonly before?: readonly string[]; readonly heard?: (replies: Reply[]) => void }
  /** There is nothing to store. */
  | 'keep'
  /** What was remembered is not enough to decide on: read it anew. */
  | 'read'

const MOST_TRIES = 100
/** More than memcached's own header of an item. */
const ITEM_HEADER = 128
const EAGER_TRIES = 3
/** How much longer each further pause may be: short at first, for who misses a turn of a busy line is served less often. */
const PAUSE_STEP_MS = 0.5
/** A hold that is over keeps everybody waiting: its leave goes before joins. */
export const LEAVING_EAGER_TRIES = 12

/** The lines of one server: reads them, and changes them by compare-and-swap. */
export class LineStore {
  readonly link: Link
  readonly keys: Keys

  constructor(link: Link, keys: Keys) {
    this.link = link
    this.keys = keys
  }

  /** Sends commands and then reads lines, all in one round trip. */
  async read(
    lines: readonly LineKey[],
    before: readonly string[] = [],
    flags = '',
  ): Promise<{ snapshots: Snapshot[]; replies: Reply[] }> {
    const connection = await this.link.connection()
    const reads = lines.map((line) => `mg ${this.keys.line(line)} v c${flags}`)
    const replies = await connection.send([...before, ...reads])
    const snapshots = lines.map((line, index) => this.#snapshot(line, replies[before.length + index]!, connection))
    return { snapshots, replies: replies.slice(0, before.length) }
  }

  async readOne(line: LineKey): Promise<Snapshot> {
    return (await this.read([line])).snapshots[0]!
  }

  /**
   * Changes a line: `decide` sees it and says what to store, again and again until nobody else stored meanwhile.
   * Begins with what is remembered of the line, so that a change of a line that nobody else touched is one round trip.
   */
  async change(
    line: LineKey,
    remembered: Snapshot | undefined,
    decide: (snapshot: Snapshot, fresh: boolean) => Promise<Step> | Step,
    eagerTries: number = EAGER_TRIES,
  ): Promise<Snapshot> {
    let snapshot = remembered?.connection.isOpen === true ? remembered : undefined
    let fresh = false
    for (let tries = 0; tries < MOST_TRIES; ) {
      if (snapshot === undefined) {
        snapshot = await this.readOne(line)
        fresh = true
      }
      const step = await decide(snapshot, fresh)
      if (step === 'keep') return snapshot
      if (step !== 'read') {
        const { stored, replies } = await this.#store(snapshot, step.write, step.before ?? [])
        step.heard?.(replies)
        if (stored !== undefined) return stored
        tries += 1
        // Many clients at once: whoever lost waits a little, each for another time, or all would meet again.
        if (tries > eagerTries) await pause(Math.random() * tries * PAUSE_STEP_MS)
      }
      snapshot = undefined
    }
    throw new BackendError(
      `The line '${line.name}' in memcached changed ${MOST_TRIES} times while it was to be changed. Try again, or spread the load over more names.`,
      { retryable: true },
    )
  }

  /** What a line is assumed to be that nobody is known to stand in. */
  async assumedEmpty(line: LineKey): Promise<Snapshot> {
    return { line, value: emptyLine(line.name), cas: undefined, connection: await this.link.connection() }
  }

  /** Which of these entries have a lease that ended. Once dead, an entry stays so: only a new order can follow. */
  async dead(entries: readonly Entry[], connection: Connection): Promise<Entry[]> {
    const replies = await connection.send(entries.map((entry) => `mg ${this.keys.life(entry)}`))
    return entries.filter((_, index) => isMiss(replies[index]!))
  }

  /** Which tombstones are still needed. */
  async lasting(tombstones: readonly Tombstone[], connection: Connection): Promise<Tombstone[]> {
    const replies = await connection.send(tombstones.map(({ id }) => `mg ${this.keys.tombstone(id)}`))
    return tombstones.filter((_, index) => !isMiss(replies[index]!))
  }

  /** What the line is now, undefined when somebody else stored meanwhile; and the replies to `before`. */
  async #store(
    snapshot: Snapshot,
    value: LineValue,
    before: readonly string[],
  ): Promise<{ stored: Snapshot | undefined; replies: Reply[] }> {
    const { line, cas, connection } = snapshot
    const key = this.keys.line(line)
    if (isEmpty(value) && cas === undefined) {
      const replies = await connection.send(before)
      checkStored(replies, line)
      return { stored: snapshot, replies }
    }
    const command = storeCommand(key, value, cas)
    if (Buffer.byteLength(command) + ITEM_HEADER > connection.maxItemBytes) throw tooLong(line)
    const answers = await connection.send([...before, command])
    const last = answers.at(-1)!
    const replies = answers.slice(0, -1)
    checkStored(replies, line)
    if (last.code === 'EX' || last.code === 'NS' || last.code === 'NF') return { stored: undefined, replies }
    if (last.code !== 'HD') throw refusal(last, line)
    return { stored: { line, value, cas: isEmpty(value) ? undefined : flagOf(last, 'c'), connection }, replies }
  }

  #snapshot(line: LineKey, reply: Reply, connection: Connection): Snapshot {
    const value = valueOf(reply)
    if (value === undefined) return { line, value: emptyLine(line.name), cas: undefined, connection }
    let decoded: LineValue
    try {
      decoded = decode(value)
    } catch (cause) {
      const message = `The value of '${line.name}' in memcached was not written by this version of Holdfast. Use another prefix, or delete the key ${this.keys.line(line)}.`
      throw new BackendError(message, { retryable: false, cause })
    }
    return { line, value: decoded, cas: flagOf(reply, 'c'), connection }
  }
}

/** Only ever compare-and-swap, add, or compare-and-delete. */
function storeCommand(key: string, value: LineValue, cas: string | undefined): string {
  if (isEmpty(value)) return `md ${key} C${cas}`
  // With nobody in line only the tombstones are left, and the value goes with the last of them.
  const tombstoneSeconds = Math.max(...value.tombstones.map(({ seconds }) => seconds))
  const seconds = value.entries.length > 0 ? LINE_SECONDS : tombstoneSeconds
  return setCommand(key, encode(value), seconds, cas === undefined ? 'ME c' : `C${cas} c`)
}

/** Stores a value for some seconds. */
export function setCommand(key: string, value: string, seconds: number, flags = ''): string {
  return `ms ${key} ${Buffer.byteLength(value)} T${seconds}${flags === '' ? '' : ` ${flags}`}\r\n${value}`
}

/**
 * Seconds that are not less than so many milliseconds. memcached's clock ticks once a second, so what is stored
 * just before a tick loses up to one: that one is added.
 */
export function secondsFor(ms: number): number {
  return Math.ceil(ms / 1_000) + 1
}

/** Whether the key was not there. Throws for what says neither: an error is never a no, and never a yes. */
export function isMiss(reply: Reply): boolean {
  const { code, words } = reply
  if (code === 'EN' || code === 'NF') return true
  if (code === 'HD' || code === 'VA') return false
  const message = `memcached did not say whether a key is there: ${[code, ...words].join(' ')}. Look at the memory of the server (-m).`
  throw new BackendError(message, { retryable: true })
}

/** What the key holds; undefined when it was not there. Throws as `isMiss` does. */
export function valueOf(reply: Reply): Buffer | undefined {
  return isMiss(reply) ? undefined : reply.value
}

function checkStored(replies: readonly Reply[], line: LineKey): void {
  const bad = replies.find(({ code }) => code === 'SERVER_ERROR')
  if (bad !== undefined) throw refusal(bad, line)
}

function refusal(reply: Reply, line: LineKey): BackendError {
  const text = [reply.code, ...reply.words].join(' ')
  return new BackendError(
    `memcached did not store the line '${line.name}': ${text}. Look at the memory of the server (-m).`,
    { retryable: true },
  )
}

/** Found out before it is sent: a value that memcached refuses as too large takes the one before it along. */
function tooLong(line: LineKey): BackendError {
  return new BackendError(
    `Too many stand in the line '${line.name}' for one value in memcached. Let fewer wait, or raise -I on the server.`,
    { retryable: false },
  )
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}
