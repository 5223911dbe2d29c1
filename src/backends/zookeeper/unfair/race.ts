import type { BackendEvents, Standing } from '../../../core/backend.js'
import { type Created, type Data, found, type Reply, type ZooKeeperClient } from '../client/client.js'
import { CODE, ZooKeeperError } from '../client/errors.js'
import { type Acl, EVENT, MODE } from '../client/protocol.js'
import type { Watcher } from '../client/watches.js'
import { failure } from '../failures.js'
import { see, unlessNoAuth } from '../look.js'
import type { Parents } from '../parents.js'
import type { UnfairLeaving } from './leaving.js'
import { encodeRacer, idOf, type Racer, type Racers } from './racers.js'

export interface RaceParts {
  readonly client: ZooKeeperClient
  readonly parents: Parents
  readonly racers: Racers
  readonly leaving: UnfairLeaving
  /** Where the nodes stand. */
  readonly folder: string
  readonly acl: readonly Acl[]
  readonly events: () => BackendEvents | undefined
}

/** Running for a node: whoever creates it holds; the others watch it, and run again when it goes. */
export class Race {
  readonly #parts: RaceParts
  /** The paths that the servers will tell of. */
  readonly #watched = new Set<string>()

  constructor(parts: RaceParts) {
    this.#parts = parts
  }

  /** One try: the node is created, or found to be ours already or still, or watched. */
  async run(racer: Racer, calledAt: number): Promise<Standing> {
    const { session } = this.#parts.client
    try {
      if (racer.order === undefined) await this.#create(racer)
      else await this.#stands(racer)
    } catch (error) {
      return { state: 'failed', error: failure(error, 'take the lock') }
    }
    if (!this.#parts.racers.isWanted(racer)) return { state: 'gone' }
    const ttlMs = Math.max(0, session.provenUntil - calledAt)
    if (racer.order !== undefined) return { state: 'granted', order: racer.order, ttlMs }
    return { state: 'waiting', ahead: 1, ttlMs, lookAgainMs: session.timeoutMs }
  }

  /** The connection is back: whoever waits runs again, for the watch may have been lost with his request. */
  runAgain(): void {
    const paths = new Set<string>()
    for (const { path, order, over } of this.#parts.racers.all()) {
      if (over !== true && order === undefined) paths.add(path)
    }
    for (const path of paths) this.#went(path, 0)
  }

  /** The session is over, and with it every watch. */
  expire(): void {
    this.#watched.clear()
  }

  async #create(racer: Racer, again = true): Promise<void> {
    const { client, parents, racers, folder, acl } = this.#parts
    if (!racers.isWanted(racer)) return
    const made = new Promise<Created | undefined>((resolve, reject) => {
      client.create(racer.path, encodeRacer(racer.request), acl, MODE.ephemeral, (error, created) => {
        if (error === undefined || error.code === CODE.nodeExists) resolve(created)
        else reject(error)
      })
    })
    // Sent together with the creation: who holds it, and a watch for the day it goes.
    const [created, node] = await Promise.all([made, this.#read(racer.path)]).catch(async (error: unknown) => {
      if (!(error instanceof ZooKeeperError) || error.code !== CODE.noNode) throw error
      await parents.folder(folder)
      return []
    })
    if (created !== undefined) await this.#won(racer, created.stat.czxid)
    else if (node === undefined) await this.#create(racer)
    // What an ended session left behind is not ours.
    else if (node.stat.ephemeralOwner === client.session.id) await this.#standsBefore(racer, node, again)
  }

  /** A node of this very session was there already. */
  async #standsBefore(racer: Racer, { data, stat }: Data, again: boolean): Promise<void> {
    const { racers, leaving } = this.#parts
    const before = racers.get(idOf(data))
    if (before === racer) {
      // An earlier creation whose answer was lost.
      racer.order = stat.czxid
    } else if (before?.over === true) {
      // Nobody wants it any more: it keeps nobody out for long, nor us.
      await leaving.letGo(before)
      await this.#create(racer)
    } else if (before === undefined && again) {
      // It has just left.
      await this.#create(racer, false)
    }
  }

  async #won(racer: Racer, order: bigint): Promise<void> {
    const { racers, leaving } = this.#parts
    racer.order = order
    if (racers.get(racer.request.id) === undefined) {
      // Nobody waits for this answer any more: the node must not stand without an owner.
      racer.over = true
      racers.add(racer)
      await leaving.letGo(racer)
    } else if (!this.#watched.has(racer.path)) {
      // The watch told of the node before it, or of this one before we knew that it is ours.
      await this.#stands(racer)
    }
  }

  /** A hold lasts as long as its very node stands, whatever is written there. Reading it also watches it. */
  async #stands(racer: Racer): Promise<boolean> {
    const { racers } = this.#parts
    const node = await this.#read(racer.path)
    if (!racers.isWanted(racer)) return true
    if (node?.stat.czxid === racer.order) return true
    racers.remove(racer)
    return false
  }

  /**
   * Reads a node, and watches it unless it is watched. Of one that this user may not read no more is seen than
   * that it stands; its end is found by the next look.
   */
  async #read(path: string): Promise<Data | undefined> {
    const { client } = this.#parts
    const watch = !this.#watched.has(path)
    if (watch) this.#watched.add(path)
    const watcher: Watcher | undefined = watch ? ({ type }) => this.#went(path, type) : undefined
    const ask = (reply: Reply<Data>): void =>
      client.getData(path, watcher, (error, value) => {
        if (error !== undefined && watch) this.#watched.delete(path)
        reply(error, value)
      })
    const read = await found<Data>(ask).catch(unlessNoAuth(null))
    return read === null ? await see(client, path) : read
  }

  /** The node went: if it was ours it was taken from us; else the first of this process that waits runs for it. */
  #went(path: string, type: number): void {
    const { racers, events } = this.#parts
    this.#watched.delete(path)
    const here = racers.at(path)
    const holder = here.find(({ order }) => order !== undefined)
    if (holder !== undefined && type === EVENT.deleted) {
      racers.remove(holder)
      if (holder.deleting === true) racers.tidied(holder)
      else events()?.lost([holder.request.id])
    } else if (holder !== undefined) {
      // Somebody wrote to it, and the watch is used up. What cannot be asked now is asked by the next renewal.
      const gone = (stands: boolean): void => void (stands || events()?.lost([holder.request.id]))
      this.#stands(holder).then(gone, () => undefined)
    }
    // Not one that only tries: it is answered by its own creation, and gone then.
    const next = here.find(({ order, over, request }) => order === undefined && over !== true && request.wait)
    if (next === undefined) return
    void this.run(next, performance.now()).then((standing) => {
      if (standing.state === 'granted') events()?.granted(next.request.id, standing.order)
    })
  }
}
