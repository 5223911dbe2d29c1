import type { Kind } from '../../core/line.js'
import type { Entry } from './entry.js'

/** How often, and for how long at least, one client may hand a lock to itself before it lets others try. */
const OWN_TURNS = 5
const OWN_TURNS_MS = 20
/** Others were here so lately that they may still want it. */
const LATELY_MS = 1_000
const SHORTEST_LOOK_MS = 5
const LONGEST_LOOK_MS = 100
/**
 * Servers that are slow to answer have too much to do, and those who wait are what they do: fifty clients that each ask
 * every 50 ms while an answer takes 75 leave no room for the one release that they all wait for. So the pause grows with
 * the answer's time, and the asking takes a small part of the time, however many ask.
 */
const PAUSES_PER_ANSWER = 8
const LONGEST_PAUSE_MS = 1_000

interface Room {
  readonly kind: Kind
  readonly waiting: Set<Entry>
  readonly held: Set<Entry>
  /** Hand-overs in a row within this client. */
  turns: number
  /** When the first of them ended. */
  turnsAt: number
  othersAt: number
  pauseUntil: number
}

/**
 * Who waits in this client, by line. Only the first of them asks the servers: fifty that ask at once would split the
 * votes between them, and get nothing.
 */
export class WaitingRoom {
  readonly #rooms = new Map<string, Room>()

  /**
   * True when this entry may ask now: nobody of this client stands before it, holds a mutex, or had too many turns. Who
   * does not wait asks also when others do, unless the servers have said no to the first of them: not to be able to
   * tell is no "no".
   */
  mayTry(entry: Entry, now: number): boolean {
    const room = this.#rooms.get(entry.line)
    if (room === undefined) return true
    const [first] = room.waiting
    if (first !== undefined && first !== entry && (entry.request.wait || first.refused)) return false
    if (now < room.pauseUntil && entry.request.wait) return false
    if (room.kind !== 'mutex') return true
    for (const held of room.held) if (held !== entry && now < held.until) return false
    return true
  }

  wait(entry: Entry): void {
    this.#room(entry).waiting.add(entry)
  }

  hold(entry: Entry): void {
    const room = this.#room(entry)
    room.waiting.delete(entry)
    room.held.add(entry)
  }

  /** Somebody outside this client was in the way. */
  othersSeen(entry: Entry, now: number): void {
    const room = this.#room(entry)
    room.othersAt = now
    room.turns = 0
  }

  /** True when others of this client wait there and should look again. */
  leave(entry: Entry, now: number): boolean {
    const room = this.#rooms.get(entry.line)
    if (room === undefined) return false
    room.waiting.delete(entry)
    if (room.held.delete(entry)) {
      if (room.turns === 0) room.turnsAt = now
      room.turns += 1
      const isLong = room.turns >= OWN_TURNS && now - room.turnsAt >= OWN_TURNS_MS
      if (isLong && now - room.othersAt < LATELY_MS) {
        room.turns = 0
        room.pauseUntil = now + 2 * SHORTEST_LOOK_MS * (1 + Math.random())
      }
    }
    if (room.waiting.size === 0 && room.held.size === 0) this.#rooms.delete(entry.line)
    return room.waiting.size > 0
  }

  ahead(entry: Entry): number {
    const room = this.#rooms.get(entry.line)
    return room === undefined ? 0 : room.held.size + [...room.waiting].indexOf(entry)
  }

  /** When to look again: soon for the first, at random, so that two clients do not march in step. */
  lookAgainMs(entry: Entry, now: number): number {
    const room = this.#rooms.get(entry.line)
    const [first] = room?.waiting ?? []
    if (first !== entry) return entry.request.waitTtlMs
    if (room !== undefined && now < room.pauseUntil) return room.pauseUntil - now
    const most = Math.min(LONGEST_LOOK_MS, SHORTEST_LOOK_MS * 2 ** Math.min(1 + entry.tries / 4, 6))
    const calm = Math.min(LONGEST_PAUSE_MS, PAUSES_PER_ANSWER * entry.tookMs)
    return SHORTEST_LOOK_MS + Math.random() * Math.max(most, calm)
  }

  #room({ line, request }: Entry): Room {
    let room = this.#rooms.get(line)
    if (room === undefined) {
      const { kind } = request.line
      room = {
        kind,
        waiting: new Set(),
        held: new Set(),
        turns: 0,
        turnsAt: 0,
        othersAt: Number.NEGATIVE_INFINITY,
        pauseUntil: 0,
      }
      this.#rooms.set(line, room)
    }
    return room
  }
}
