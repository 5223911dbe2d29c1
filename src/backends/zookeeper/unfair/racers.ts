import type { JoinRequest } from '../../../core/backend.js'
import { encodeHolder } from '../holder.js'
import { ASKED_AGAIN_MS, Tombstones } from '../tombstones.js'

/** A ticket of this client: it runs for the node of its lock, or holds it. */
export interface Racer {
  readonly request: JoinRequest
  readonly path: string
  /** Set while it holds. */
  order?: bigint
  /** Nobody wants it any more, though its node may stand or be on its way: it runs no more. */
  over?: boolean
  /** The deletion of its node was sent: that it goes is no surprise. */
  deleting?: boolean
  leaving?: Promise<boolean> | undefined
}

/** The tickets of this client, by their ids. */
export class Racers {
  readonly #byId = new Map<string, Racer>()
  /** Tickets that went behind the back of those who asked for it: asked again, they are told yes. */
  readonly #tidied = new Tombstones()

  get(id: string): Racer | undefined {
    return this.#byId.get(id)
  }

  all(): Iterable<Racer> {
    return this.#byId.values()
  }

  at(path: string): Racer[] {
    return [...this.#byId.values()].filter((racer) => racer.path === path)
  }

  add(racer: Racer): void {
    this.#byId.set(racer.request.id, racer)
  }

  remove({ request }: Racer): void {
    this.#byId.delete(request.id)
  }

  /** Whether somebody still wants it. */
  isWanted(racer: Racer): boolean {
    return racer.over !== true && this.#byId.get(racer.request.id) === racer
  }

  /** Its node went, as was asked for, though whoever asked was not told. */
  tidied({ request }: Racer): void {
    this.#tidied.bury(request.id, ASKED_AGAIN_MS)
  }

  wasTidied(id: string): boolean {
    return this.#tidied.has(id)
  }

  /** The session is over, and with it every hold and every try. */
  clear(): string[] {
    const ids = [...this.#byId.keys()]
    this.#byId.clear()
    return ids
  }
}

/** What is written into a racer's node: its holder, and the id by which it is known again. */
export function encodeRacer(request: JoinRequest): Buffer {
  const holder = JSON.parse(encodeHolder(request).toString()) as object
  return Buffer.from(JSON.stringify({ ...holder, id: request.id }))
}

/** The id of the ticket that a node was made for; empty where it is not one of ours. */
export function idOf(data: Buffer): string {
  try {
    const { id } = JSON.parse(data.toString('utf8')) as { id?: unknown }
    return typeof id === 'string' ? id : ''
  } catch {
    return ''
  }
}
