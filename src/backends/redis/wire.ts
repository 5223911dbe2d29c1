import type { Words } from './words.js'

/** What the backend needs of a client library: this much, and nothing else. */
export interface Wire {
  /** What the library puts before every key by itself. */
  readonly ownPrefix: string
  readonly cluster: boolean
  /** One command, sent to the node that has the key (a Cluster; left out: any master). */
  send(command: readonly string[], key?: string): Promise<unknown>
  /** The same, for one that is sent often and differs in one word only. */
  sendAround(before: Words, word: string, after: Words, key: string): Promise<unknown>
  /** One command and WAIT right behind it on the same connection: the reply, and how many replicas have it. */
  sendAndWait(command: readonly string[], key: string, replicas: number, timeoutMs: number): Promise<[unknown, number]>
  /** One command to each master, as a function each. */
  masters(): ((command: readonly string[]) => Promise<unknown>)[]
  /** Listens on a connection of its own; `back` is called when it is there again after it broke. */
  listen(channel: string, heard: (message: string) => void, back: () => void): Promise<void>
  /** Calls when the connection is there again after it broke. */
  onReconnect(back: () => void): void
  /** A connection of its own with the same settings, for calls that block. */
  another(): Promise<Wire>
  /** Closes what was opened here: never a client that was given. */
  close(): Promise<void>
}
