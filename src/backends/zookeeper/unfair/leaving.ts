import { found, type ZooKeeperClient } from '../client/client.js'
import { decodeHolder } from '../holder.js'
import { readOrSee } from '../look.js'
import { idOf, type Racer, type Racers } from './racers.js'

/** Letting go of the node, or taking it from whoever has it. */
export class UnfairLeaving {
  readonly #client: ZooKeeperClient
  readonly #racers: Racers

  constructor(client: ZooKeeperClient, racers: Racers) {
    this.#client = client
    this.#racers = racers
  }

  async leave(id: string): Promise<boolean> {
    const racer = this.#racers.get(id)
    return racer === undefined ? this.#racers.wasTidied(id) : await this.letGo(racer)
  }

  /** Takes the node from the ticket of this id, whoever's it is. */
  async evict(path: string, id: string): Promise<boolean> {
    const node = await readOrSee(this.#client, path)
    if (node === undefined || idOf(node.data) !== id) return false
    return (await this.#delete(path)) === true
  }

  /**
   * One at a time. Two that both read the node as ours would both delete it: the first ours, and the second, when
   * somebody was quick between them, another's.
   */
  async letGo(racer: Racer): Promise<boolean> {
    racer.leaving ??= this.#depart(racer).finally(() => void (racer.leaving = undefined))
    return await racer.leaving
  }

  /** What nobody wants goes, now that a server can be told. */
  tidy(racers: Iterable<Racer>): void {
    for (const racer of racers) {
      if (racer.over !== true) continue
      this.letGo(racer).then((left) => void (left && this.#racers.tidied(racer)), ignore)
    }
  }

  /** Drops the owner's hold of another client. */
  async takeOver({ request, path }: Racer): Promise<void> {
    const node = await readOrSee(this.#client, path)
    const holder = node === undefined ? undefined : decodeHolder(node.data)
    if (holder?.owner !== request.holder.owner || holder.client === request.holder.client) return
    await this.#delete(path)
  }

  /** A node of that name may be another's by now: only one that is known to be this ticket's is deleted. */
  async #depart(racer: Racer): Promise<boolean> {
    const { path, request } = racer
    // Behind every creation of it that was sent, and none is sent any more: what is read now is the last word.
    const node = await readOrSee(this.#client, path)
    const ours = racer.order === undefined ? node && idOf(node.data) === request.id : node?.stat.czxid === racer.order
    if (node !== undefined && ours && node.stat.ephemeralOwner === this.#client.session.id) {
      racer.deleting = true
      await this.#delete(path)
    }
    this.#racers.remove(racer)
    // It only ran for it: to give up is to run no more. Or it is gone, by this deletion or by one whose answer was lost.
    return racer.order === undefined || racer.deleting === true
  }

  #delete(path: string): Promise<true | undefined> {
    return found<true>((reply) => this.#client.delete(path, reply))
  }
}

function ignore(): void {
  // Tried again after the next break: nothing but a break can make it fail.
}
