import type {
  Backend,
  BackendEvents,
  Guarantees,
  JoinRequest,
  LeaveRequest,
  LineView,
  RenewRequest,
  Standing,
} from '../../core/backend.js'
import type { BackendError } from '../../core/errors.js'
import type { LineKey } from '../../core/line.js'
import type { ZooKeeperParts } from './backend.js'
import { answered, type Created, type Data, found, type Reply, ZooKeeperClient } from './client/client.js'
import { CODE, ZooKeeperError } from './client/errors.js'
import { EVENT, MODE } from './client/protocol.js'
import { failure } from './failures.js'
import { GUARANTEES, SessionPromise } from './guarantees.js'
import { decodeHolder, encodeHolder, foreignHolder } from './holder.js'
import { readOrSee, see, unlessNoAuth } from './look.js'
import { decodeSegment, encodeSegment } from './names.js'
import { connectFirst, Online } from './online.js'
import { Parents } from './parents.js'
import { ASKED_AGAIN_MS, Tombstones } from './tombstones.js'

const UNFAIR: Omit<Guarantees, 'minTtlMs'> = {
  ...GUARANTEES,
  order: 'none',
  atomicGroup: false,
  kinds: ['mutex'],
  sentence: `Whoever is quickest gets it, and every release wakes every waiting process. ${GUARANTEES.sentence}`,
}

interface Racer {
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

/** The plain lock: one ephemeral node a mutex. Create it or watch it; when it goes, everyone who waits runs for it. */
export class UnfairBackend implements Backend {
  readonly name: string = 'zookeeper'
  readonly maxBatch: number = 256
  readonly #promise: SessionPromise
  readonly #parts: ZooKeeperParts
  readonly #client: ZooKeeperClient
  readonly #online: Online
  readonly #parents: Parents
  readonly #folder: string
  readonly #racers = new Map<string, Racer>()
  readonly #tombstones = new Tombstones()
  /** Tickets that went behind the back of those who asked for it: asked again, they are told yes. */
  readonly #tidied = new Tombstones()
  readonly #watched = new Set<string>()
  #events: BackendEvents | undefined

  constructor(parts: ZooKeeperParts) {
    this.#parts = parts
    this.#promise = new SessionPromise(UNFAIR, parts.session.timeoutMs)
    this.#client = new ZooKeeperClient(parts.session, {
      connected: (fresh) => this.#connected(fresh),
      disconnected: () => this.#events?.unsure(),
      expired: () => this.#expired(),
    })
    this.#online = new Online(this.#client.session)
    this.#parents = new Parents(this.#client, parts)
    this.#folder = parts.places.base === '/' ? '/unfair' : `${parts.places.base}/unfair`
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
        return racer === undefined ? Promise.resolve<Standing>({ state: 'gone' }) : this.#run(racer, calledAt)
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
    this.#racers.set(request.id, racer)
    if (request.takeover) {
      try {
        await this.#takeOver(racer)
      } catch (error) {
        return { state: 'failed', error: failure(error, 'take the lock over') }
      }
    }
    const standing = await this.#run(racer, calledAt)
    if (standing.state !== 'waiting' || request.wait) return standing
    this.#racers.delete(request.id)
    return { state: 'refused' }
  }

  /** One try: the node is created, or found to be ours already or still, or watched. */
  async #run(racer: Racer, calledAt: number): Promise<Standing> {
    const { session } = this.#client
    try {
      if (racer.order === undefined) await this.#create(racer)
      else await this.#stands(racer)
    } catch (error) {
      return { state: 'failed', error: failure(error, 'take the lock') }
    }
    if (racer.over === true || this.#racers.get(racer.request.id) !== racer) return { state: 'gone' }
    const ttlMs = Math.max(0, session.provenUntil - calledAt)
    if (racer.order !== undefined) return { state: 'granted', order: racer.order, ttlMs }
    return { state: 'waiting', ahead: 1, ttlMs, lookAgainMs: session.timeoutMs }
  }

  async #create(racer: Racer, again = true): Promise<void> {
    if (racer.over === true || this.#racers.get(racer.request.id) !== racer) return
    const { id } = racer.request
    const data = Buffer.from(JSON.stringify({ ...(JSON.parse(encodeHolder(racer.request).toString()) as object), id }))
    const made = new Promise<Created | undefined>((resolve, reject) => {
      this.#client.create(racer.path, data, this.#parts.acl, MODE.ephemeral, (error, created) => {
        if (error === undefined || error.code === CODE.nodeExists) resolve(created)
        else reject(error)
      })
    })
    // Sent together with the creation: who holds it, and a watch for the day it goes.
    const [created, node] = await Promise.all([made, this.#read(racer.path, racer)]).catch(async (error: unknown) => {
      if (!(error instanceof ZooKeeperError) || error.code !== CODE.noNode) throw error
      await this.#parents.folder(this.#folder)
      return []
    })
    if (created !== undefined) await this.#won(racer, created.stat.czxid)
    else if (node === undefined) await this.#create(racer)
    // What an ended session left behind is not ours.
    else if (node.stat.ephemeralOwner === this.#client.session.id) await this.#standsBefore(racer, node, again)
  }

  /** A node of this very session was there already. */
  async #standsBefore(racer: Racer, { data, stat }: Data, again: boolean): Promise<void> {
    const before = this.#racers.get(idOf(data))
    if (before === racer) {
      // An earlier creation whose answer was lost.
      racer.order = stat.czxid
    } else if (before?.over === true) {
      // Nobody wants it any more: it keeps nobody out for long, nor us.
      await this.#leave({ ...before.request, handle: before.request.id })
      await this.#create(racer)
    } else if (before === undefined && again) {
      // It has just left.
      await this.#create(racer, false)
    }
  }

  async #won(racer: Racer, order: bigint): Promise<void> {
    const { request, path } = racer
    racer.order = order
    if (!this.#racers.has(request.id)) {
      // Nobody waits for this answer any more: the node must not stand without an owner.
      racer.over = true
      this.#racers.set(request.id, racer)
      await this.#leave({ ...request, handle: request.id })
    } else if (!this.#watched.has(path)) {
      // The watch told of the node before it, or of this one before we knew that it is ours.
      await this.#stands(racer)
    }
  }

  /** A hold lasts as long as its very node stands, whatever is written there. Reading it also watches it. */
  async #stands(racer: Racer): Promise<boolean> {
    const node = await this.#read(racer.path, racer)
    if (racer.over === true || this.#racers.get(racer.request.id) !== racer) return true
    if (node?.stat.czxid === racer.order) return true
    this.#racers.delete(racer.request.id)
    return false
  }

  /** Of a node that this user may not read no more is seen than that it stands; its end is found by the next look. */
  async #read(path: string, racer?: Racer): Promise<Data | undefined> {
    const watch = racer !== undefined && !this.#watched.has(path)
    if (watch) this.#watched.add(path)
    const watcher = watch ? ({ type }: { type: number }) => this.#went(path, type) : undefined
    const ask = (reply: Reply<Data>): void =>
      this.#client.getData(path, watcher, (error, value) => {
        if (error !== undefined && watch) this.#watched.delete(path)
        reply(error, value)
      })
    const read = await found<Data>(ask).catch(unlessNoAuth(null))
    return read === null ? await see(this.#client, path) : read
  }

  /** The node went: if it was ours it was taken from us; else the first of this process that waits runs for it. */
  #went(path: string, type: number): void {
    this.#watched.delete(path)
    const here = [...this.#racers.values()].filter((racer) => racer.path === path)
    const holder = here.find(({ order }) => order !== undefined)
    if (holder !== undefined && type === EVENT.deleted) {
      this.#racers.delete(holder.request.id)
      if (holder.deleting === true) this.#tidied.bury(holder.request.id, ASKED_AGAIN_MS)
      else this.#events?.lost([holder.request.id])
    } else if (holder !== undefined) {
      // Somebody wrote to it, and the watch is used up. What cannot be asked now is asked by the next renewal.
      const gone = (stands: boolean): void => void (stands || this.#events?.lost([holder.request.id]))
      this.#stands(holder).then(gone, ignore)
    }
    // Not one that only tries: it is answered by its own creation, and gone then.
    const next = here.find(({ order, over, request }) => order === undefined && over !== true && request.wait)
    if (next === undefined) return
    void this.#run(next, performance.now()).then((standing) => {
      if (standing.state === 'granted') this.#events?.granted(next.request.id, standing.order)
    })
  }

  async #leave({ line, id, handle }: Pick<LeaveRequest, 'line' | 'id' | 'handle'>): Promise<boolean> {
    if (handle === undefined) return await this.#evict(this.#path(line), id)
    const racer = this.#racers.get(id)
    if (racer === undefined) return this.#tidied.has(id)
    // One at a time. Two that both read the node as ours would both delete it: the first ours, and the second, when
    // somebody was quick between them, another's.
    racer.leaving ??= this.#depart(racer).finally(() => void (racer.leaving = undefined))
    return await racer.leaving
  }

  /** A node of that name may be another's by now: only one that is known to be this ticket's is deleted. */
  async #depart(racer: Racer): Promise<boolean> {
    const { path, request } = racer
    // Behind every creation of it that was sent, and none is sent any more: what is read now is the last word.
    const node = await this.#read(path)
    const ours = racer.order === undefined ? node && idOf(node.data) === request.id : node?.stat.czxid === racer.order
    if (node !== undefined && ours && node.stat.ephemeralOwner === this.#client.session.id) {
      racer.deleting = true
      await found<true>((reply) => this.#client.delete(path, reply))
    }
    this.#racers.delete(request.id)
    // It only ran for it: to give up is to run no more. Or it is gone, by this deletion or by one whose answer was lost.
    return racer.order === undefined || racer.deleting === true
  }

  async #evict(path: string, id: string): Promise<boolean> {
    const node = await this.#read(path)
    if (node === undefined || idOf(node.data) !== id) return false
    return (await found<true>((reply) => this.#client.delete(path, reply))) === true
  }

  async #takeOver({ request, path }: Racer): Promise<void> {
    const node = await this.#read(path)
    const holder = node === undefined ? undefined : decodeHolder(node.data)
    if (holder?.owner !== request.holder.owner || holder.client === request.holder.client) return
    await found<true>((reply) => this.#client.delete(path, reply))
  }

  #connected(fresh: boolean): void {
    this.#promise.given(this.#client.session.timeoutMs)
    this.#online.connected()
    if (fresh) return
    const paths = new Set<string>()
    for (const { request, path, order, over } of this.#racers.values()) {
      const noted = (left: boolean): void => void (left && this.#tidied.bury(request.id, ASKED_AGAIN_MS))
      if (over === true) this.#leave({ ...request, handle: request.id }).then(noted, ignore)
      else if (order === undefined) paths.add(path)
    }
    for (const path of paths) this.#went(path, 0)
  }

  #expired(): void {
    const ids = [...this.#racers.keys()]
    this.#racers.clear()
    this.#watched.clear()
    if (ids.length > 0) this.#events?.lost(ids)
  }

  #path({ name }: LineKey): string {
    return `${this.#folder}/${encodeSegment(name)}`
  }
}

function ignore(): void {
  // Tried again after the next break: nothing but a break can make it fail.
}

function idOf(data: Buffer): string {
  try {
    const { id } = JSON.parse(data.toString('utf8')) as { id?: unknown }
    return typeof id === 'string' ? id : ''
  } catch {
    return ''
  }
}
