import type {
  Backend,
  BackendEvents,
  Guarantees,
  JoinRequest,
  LeaveRequest,
  LineView,
  RenewRequest,
  Standing,
} from '../../../core/backend.js'
import type { BackendError } from '../../../core/errors.js'
import type { LineKey } from '../../../core/line.js'
import type { ZooKeeperParts } from '../backend.js'
import { answered, ZooKeeperClient } from '../client/client.js'
import { failure } from '../failures.js'
import { GUARANTEES, SessionPromise } from '../guarantees.js'
import { decodeHolder, foreignHolder } from '../holder.js'
import { readOrSee } from '../look.js'
import { decodeSegment, encodeSegment } from '../names.js'
import { connectFirst, Online } from '../online.js'
import { Parents } from '../parents.js'
import { Tombstones } from '../tombstones.js'
import { UnfairLeaving } from './leaving.js'
import { Race } from './race.js'
import { idOf, Racers } from './racers.js'

const UNFAIR: Omit<Guarantees, 'minTtlMs'> = {
  ...GUARANTEES,
  order: 'none',
  atomicGroup: false,
  kinds: ['mutex'],
  sentence: `Whoever is quickest gets it, and every release wakes every waiting process. ${GUARANTEES.sentence}`,
}

/** The plain lock: one ephemeral node a mutex. Create it or watch it; when it goes, everyone who waits runs for it. */
export class UnfairBackend implements Backend {
  readonly name: string = 'zookeeper'
  readonly maxBatch: number = 256
  readonly #promise: SessionPromise
  readonly #client: ZooKeeperClient
  readonly #online: Online
  readonly #parents: Parents
  readonly #folder: string
  readonly #racers = new Racers()
  readonly #leaving: UnfairLeaving
  readonly #race: Race
  readonly #tombstones = new Tombstones()
  #events: BackendEvents | undefined

  constructor(parts: ZooKeeperParts) {
    this.#promise = new SessionPromise(UNFAIR, parts.session.timeoutMs)
    this.#client = new ZooKeeperClient(parts.session, {
      connected: (fresh) => this.#connected(fresh),
      disconnected: () => this.#events?.unsure(),
      expired: () => this.#expired(),
    })
    this.#online = new Online(this.#client.session)
    this.#parents = new Parents(this.#client, parts)
    this.#folder = parts.places.base === '/' ? '/unfair' : `${parts.places.base}/unfair`
    this.#leaving = new UnfairLeaving(this.#client, this.#racers)
    this.#race = new Race({
      client: this.#client,
      parents: this.#parents,
      racers: this.#racers,
      leaving: this.#leaving,
      folder: this.#folder,
      acl: parts.acl,
      events: () => this.#events,
    })
  }

  get guarantees(): Guarantees {
    return this.#promise.guarantees
  }

  async open(events: BackendEvents): Promise<void> {
    this.#events = events
    await connectFirst(this.#client.session, this.#online)
    try {
      await this.#parents.folder(this.#folder)
    } catch (error) {
      await this.#client.session.close()
      throw failure(error, `make its folder '${this.#folder}'`)
    }
  }

  async join(requests: readonly JoinRequest[]): Promise<Standing[]> {
    const calledAt = performance.now()
    await this.#online.soon('join')
    return await Promise.all(requests.map((request) => this.#join(request, calledAt)))
  }

  async renew(requests: readonly RenewRequest[]): Promise<Standing[]> {
    const calledAt = performance.now()
    await this.#online.soon('renew')
    return await Promise.all(
      requests.map(({ id }) => {
        const racer = this.#racers.get(id)
        return racer === undefined ? Promise.resolve<Standing>({ state: 'gone' }) : this.#race.run(racer, calledAt)
      }),
    )
  }

  async leave(requests: readonly LeaveRequest[]): Promise<(boolean | BackendError)[]> {
    for (const { id, handle, tombstoneMs } of requests) {
      if (tombstoneMs > 0) this.#tombstones.bury(id, tombstoneMs)
      const racer = this.#racers.get(id)
      // Also where no server can be told now: then it goes once one can. Who is evicted is told by the watch.
      if (racer !== undefined && handle !== undefined) racer.over = true
    }
    await this.#online.soon('leave')
    return await Promise.all(
      requests.map((request) => this.#leave(request).catch((error: unknown) => failure(error, 'release'))),
    )
  }

  async view(name: string): Promise<LineView[]> {
    await this.#online.soon('look')
    const line: LineKey = { kind: 'mutex', name }
    const node = await readOrSee(this.#client, this.#path(line))
    if (node === undefined) return []
    const holder = decodeHolder(node.data) ?? foreignHolder(name, node.data)
    const ticket = { id: idOf(node.data), order: node.stat.czxid, weight: 1, capacity: 1, holder, left: false }
    return [{ line, tickets: [ticket] }]
  }

  async *names(prefix: string): AsyncIterable<string> {
    await this.#online.soon('look')
    for (const segment of await answered<string[]>((reply) =>
      this.#client.getChildren(this.#folder, undefined, reply),
    )) {
      const name = decodeSegment(segment)
      if (name?.startsWith(prefix)) yield name
    }
  }

  async close(): Promise<void> {
    this.#events = undefined
    await this.#client.session.close()
    this.#online.close()
  }

  async #join(request: JoinRequest, calledAt: number): Promise<Standing> {
    if (this.#tombstones.has(request.id)) return { state: 'gone' }
    const racer = this.#racers.get(request.id) ?? { request, path: this.#path(request.line) }
    this.#racers.add(racer)
    if (request.takeover) {
      try {
        await this.#leaving.takeOver(racer)
      } catch (error) {
        return { state: 'failed', error: failure(error, 'take the lock over') }
      }
    }
    const standing = await this.#race.run(racer, calledAt)
    if (standing.state !== 'waiting' || request.wait) return standing
    this.#racers.remove(racer)
    return { state: 'refused' }
  }

  async #leave({ line, id, handle }: LeaveRequest): Promise<boolean> {
    if (handle === undefined) return await this.#leaving.evict(this.#path(line), id)
    return await this.#leaving.leave(id)
  }

  #connected(fresh: boolean): void {
    this.#promise.given(this.#client.session.timeoutMs)
    this.#online.connected()
    if (fresh) return
    this.#leaving.tidy(this.#racers.all())
    this.#race.runAgain()
  }

  #expired(): void {
    const ids = this.#racers.clear()
    this.#race.expire()
    if (ids.length > 0) this.#events?.lost(ids)
  }

  #path({ name }: LineKey): string {
    return `${this.#folder}/${encodeSegment(name)}`
  }
}
