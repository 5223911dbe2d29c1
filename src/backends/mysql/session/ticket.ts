import { hash } from 'node:crypto'
import type { JoinRequest } from '../../../core/backend.js'
import type { Session } from './session.js'

/** A ticket of this process. The server knows only who has the lock. */
export interface SessionTicket {
  readonly request: JoinRequest
  readonly line: LocalLine
  readonly joinedAt: number
  /** As last asked for: a renewal may change it. */
  ttlMs: number
  /** Both set once it holds. */
  session?: Session
  order?: bigint
}

/** What this process has to do with one lock: at most one holder, one who asks, and a queue. */
export interface LocalLine {
  readonly value: string
  /** The lock's name on the server. */
  readonly lock: string
  holder?: SessionTicket
  /** Being tried on the desk just now. */
  trying?: SessionTicket
  /** Stands in the server's queue for the first of ours. */
  waiter?: Session
  waiting?: Promise<void>
  readonly queue: SessionTicket[]
}

/**
 * The server compares the names of its locks without regard to case or accents and takes 64 characters at most;
 * and they are the whole server's. So a lock is named by a digest of the database, the prefix and the line.
 */
export function localLine(value: string, realm: string): LocalLine {
  const digest = hash('sha256', `${realm}\0${value}`, 'hex').slice(0, 48)
  return { value, lock: `holdfast:${digest}`, queue: [] }
}

export function isIdle(line: LocalLine): boolean {
  return line.holder === undefined && line.trying === undefined && line.waiter === undefined && line.queue.length === 0
}
