import type { ZooKeeperClient } from './client/client.js'
import { parseNode } from './names.js'
import type { LineKey } from '../../core/line.js'

/** A creation that was sent and never answered. */
export interface Doubt {
  readonly line: LineKey
  readonly path: string
  /** The node that the ticket was found or created as in the end; a second one is too many. */
  node?: string
  /** The ticket was given up: whatever appears under its id goes. */
  over: boolean
  readonly until: number
}

/**
 * Creations whose answer was lost.
 *
 * A session's requests are done in their order, and a server whose session was taken up elsewhere has its
 * late requests refused (SessionMoved). But where the session comes back to the *same* server, bytes of the
 * broken connection may still be on their way:
 *
 *   connection 1: create A …………………………………(delayed)…………→ done now, nobody asked for it any more
 *   connection 2:      look for A: not there, give up
 *
 * A would then stand, alive with the session, for nobody. So for two session time-outs after such a loss the
 * line is read now and then, and a node that nobody wants is removed.
 */
export class Doubts {
  readonly #client: ZooKeeperClient
  readonly #doubts = new Map<string, Doubt>()
  #timer: NodeJS.Timeout | undefined

  constructor(client: ZooKeeperClient) {
    this.#client = client
  }

  get(id: string): Doubt | undefined {
    return this.#doubts.get(id)
  }

  add(id: string, line: LineKey, path: string): void {
    const { timeoutMs } = this.#client.session
    this.#doubts.set(id, { line, path, over: false, until: performance.now() + 2 * timeoutMs })
    this.#timer ??= setInterval(() => this.#look(), Math.min(1_000, timeoutMs / 4))
    this.#timer.unref()
  }

  /** The session is over: what it created goes by itself, and what is still on its way is refused. */
  clear(): void {
    this.#doubts.clear()
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #look(): void {
    if (this.#client.session.state !== 'connected') return
    const now = performance.now()
    const paths = new Map<string, LineKey>()
    for (const [id, doubt] of this.#doubts) {
      // Neither found nor given up: whoever asked for it may come back and look for it.
      if (!doubt.over && doubt.node === undefined) continue
      paths.set(doubt.path, doubt.line)
      if (now > doubt.until) this.#doubts.delete(id)
    }
    for (const [path, line] of paths) {
      this.#client.getChildren(path, undefined, (error, children) => {
        if (error === undefined) this.#sweep(path, line, children ?? [])
      })
    }
    if (this.#doubts.size === 0) this.clear()
  }

  #sweep(path: string, line: LineKey, children: readonly string[]): void {
    for (const name of children) {
      const doubt = this.#doubts.get(parseNode(line.kind, name)?.id ?? '')
      if (doubt === undefined || doubt.path !== path) continue
      const unwanted = doubt.node === undefined ? doubt.over : doubt.node !== name
      // Should this fail, the next look finds it again.
      if (unwanted) this.#client.delete(`${path}/${name}`, () => undefined)
    }
  }
}
