import type { Host } from './connection.js'

/** Which server to dial next, and when. */
export class Dials {
  readonly #hosts: readonly Host[]
  #count = 0

  constructor(hosts: readonly Host[]) {
    // Clients spread over the servers by chance.
    this.#hosts = hosts
      .map((host) => ({ host, key: Math.random() }))
      .sort((a, b) => a.key - b.key)
      .map(({ host }) => host)
  }

  /** How many since a server last took the session up. */
  get count(): number {
    return this.#count
  }

  get hostCount(): number {
    return this.#hosts.length
  }

  next(): Host {
    const host = this.#hosts[this.#count % this.#hosts.length]!
    this.#count += 1
    return host
  }

  /** A server took the session up. Should it fall silent, the next one is dialled first. */
  succeeded(): void {
    this.#count %= this.#hosts.length
  }

  /** Nothing is known of any server. */
  reset(): void {
    this.#count = 0
  }

  /**
   * Every server once without delay (a little apart, for all clients of a dead server come at once), then in
   * rounds that never take long against the session.
   */
  delayMs(timeoutMs: number): number {
    const round = Math.floor(this.#count / this.#hosts.length)
    if (round === 0) return Math.random() * 30
    return (0.5 + Math.random()) * Math.min(50 * 2 ** round, 1_000, timeoutMs / 8)
  }
}
