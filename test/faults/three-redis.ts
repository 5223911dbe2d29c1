import { connect } from '../../src/connect.js'
import type { Holdfast, HoldfastOptions } from '../../src/core/holdfast.js'
import { type Proxy, type Server, startProxy, startRedis, TurnedClock } from '../servers/index.js'

const HOUR_S = 3_600

/** Three Redis servers for a quorum, each behind a proxy, and up for longer than the longest ttl: so they count. */
export class ThreeRedis {
  readonly servers: readonly Server[]
  readonly proxies: readonly Proxy[]
  readonly #settings: string
  readonly #options: HoldfastOptions
  readonly #clients: Holdfast[] = []

  static async start(ttlMs: number, nodeTimeoutMs: number): Promise<ThreeRedis> {
    const clocks = [0, 1, 2].map(() => new TurnedClock(0))
    const servers = await Promise.all(clocks.map((clock) => startRedis({ clock })))
    for (const clock of clocks) clock.turn(HOUR_S)
    return new ThreeRedis(servers, await Promise.all(servers.map((server) => startProxy(server))), ttlMs, nodeTimeoutMs)
  }

  private constructor(servers: readonly Server[], proxies: readonly Proxy[], ttlMs: number, nodeTimeoutMs: number) {
    this.servers = servers
    this.proxies = proxies
    this.#settings = `maxTtl=${ttlMs}ms&nodeTimeout=${nodeTimeoutMs}ms`
    this.#options = { ttl: ttlMs }
  }

  /** A client that goes through the proxies, or these ways. Closed by `heal`. */
  async client(ways: readonly { readonly port: number }[] = this.proxies): Promise<Holdfast> {
    const hosts = ways.map(({ port }) => `127.0.0.1:${port}`).join(',')
    const locks = await connect(`redlock://${hosts}?${this.#settings}`, this.#options)
    this.#clients.push(locks)
    return locks
  }

  /** All is well again, and nobody is connected any more. */
  async heal(): Promise<void> {
    for (const server of this.servers) server.resume()
    await Promise.all(this.proxies.map((proxy) => proxy.heal()))
    await Promise.all(this.#clients.splice(0).map((locks) => locks.close()))
  }

  async stop(): Promise<void> {
    await Promise.all(this.proxies.map((proxy) => proxy.stop()))
    await Promise.all(this.servers.map((server) => server.stop()))
  }
}
