import type { Watcher } from './client/watches.js'
import type { LocalLine } from './local-line.js'
import type { Node } from './names.js'

/** A ticket of this client's session. */
export interface OwnTicket {
  readonly id: string
  readonly line: LocalLine
  readonly node: Node
  readonly path: string
  readonly order: bigint
  /** standing: created, but the line was not seen since. */
  state: 'standing' | 'waiting' | 'granted' | 'lost'
  /** Somebody asked to delete its node: that it goes is no surprise. */
  leaving: boolean
  /** Whoever joined with it was told where it stands; from then on a grant is news. */
  answered?: boolean
  /** Nobody wants it any more, though its node may still stand. */
  unwanted?: boolean
  /** Set while its own node is watched, so that an eviction is noticed. */
  watcher?: Watcher
}
