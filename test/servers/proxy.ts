import { createServer, connect, type Server as NetServer, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'

/**
 * What a direction does with the bytes that come:
 * - pass: hands them on, after `delayMs`;
 * - drop: takes them and forgets them, the connection stays (a lost request or reply);
 * - hold: keeps them, and hands them on in order as soon as all is healed (a late packet);
 * - halve: hands the first half of what comes next on, then breaks the connection;
 * - cut: breaks the connection as soon as something comes.
 */
export type Fault = 'pass' | 'drop' | 'hold' | 'halve' | 'cut'

export interface ProxyWay {
  fault: Fault
  delayMs: number
  /** What is handed on in place of what came: for answers that a healthy server does not give. */
  rewrite: ((chunk: Buffer) => Buffer) | undefined
  /** What came so far. */
  bytes: number
  chunks: number
}

/** A TCP proxy before a server, that breaks what the test tells it to. */
export interface Proxy {
  readonly port: number
  readonly host: string
  /** Client to server. */
  readonly requests: ProxyWay
  /** Server to client. */
  readonly replies: ProxyWay
  /** The server is not told when a client's end closes: as where the way between them is gone. */
  strands: boolean
  /** No client is told when the server's end closes, and what it sends goes nowhere: as where a NAT forgot the connection. */
  forgets: boolean
  /** The connections that are open now, and how many there ever were. */
  readonly open: number
  readonly accepted: number
  /** Neither way lets anything through, and new connections are taken but lead nowhere. */
  blackhole(): void
  /** Takes no new connections (they are refused), and breaks those there are. */
  refuse(): Promise<void>
  /** Breaks all connections; new ones are fine. */
  cutNow(): void
  /** New connections lead to another server (a failover). Those there are stay. */
  redirect(target: { readonly port: number; readonly host?: string }): void
  /** Everything passes again, at once, for new and old connections. */
  heal(): Promise<void>
  /**
   * Resolves when bytes next come this way (and, with `match`, when they hold that text or are said to match): the
   * moment to act on.
   */
  next(way: 'requests' | 'replies', match?: string | ((chunk: Buffer) => boolean)): Promise<void>
  stop(): Promise<void>
}

interface Watcher {
  readonly way: 'requests' | 'replies'
  readonly match: string | ((chunk: Buffer) => boolean) | undefined
  readonly resolve: () => void
}

/** Starts a proxy on a free port that leads to `port` (or host and port). */
export async function startProxy(target: { readonly port: number; readonly host?: string }): Promise<Proxy> {
  const proxy = new TcpProxy(target.port, target.host ?? '127.0.0.1')
  await proxy.listen()
  return proxy
}

class TcpProxy implements Proxy {
  readonly host = '127.0.0.1'
  readonly requests: ProxyWay = { fault: 'pass', delayMs: 0, rewrite: undefined, bytes: 0, chunks: 0 }
  readonly replies: ProxyWay = { fault: 'pass', delayMs: 0, rewrite: undefined, bytes: 0, chunks: 0 }
  #target: { port: number; host: string }
  readonly #sockets = new Set<Socket>()
  #watchers: Watcher[] = []
  #kept: (() => void)[] = []
  #server: NetServer | undefined
  strands = false
  forgets = false
  port = 0
  accepted = 0
  #open = 0

  constructor(port: number, host: string) {
    this.#target = { port, host }
  }

  get open(): number {
    return this.#open
  }

  async listen(): Promise<void> {
    if (this.#server !== undefined) return
    const server = createServer((client) => this.#accept(client))
    this.#server = server
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(this.port, this.host, resolve)
    })
    this.port = (server.address() as AddressInfo).port
    server.unref()
  }

  blackhole(): void {
    this.requests.fault = 'drop'
    this.replies.fault = 'drop'
  }

  async refuse(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    const closed = new Promise((resolve) => (server === undefined ? resolve(undefined) : server.close(resolve)))
    this.cutNow()
    await closed
  }

  cutNow(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  redirect({ port, host = '127.0.0.1' }: { readonly port: number; readonly host?: string }): void {
    this.#target = { port, host }
  }

  async heal(): Promise<void> {
    for (const way of [this.requests, this.replies]) {
      way.fault = 'pass'
      way.delayMs = 0
      way.rewrite = undefined
    }
    for (const handOn of this.#kept.splice(0)) handOn()
    await this.listen()
  }

  next(way: 'requests' | 'replies', match?: string | ((chunk: Buffer) => boolean)): Promise<void> {
    return new Promise((resolve) => this.#watchers.push({ way, match, resolve }))
  }

  async stop(): Promise<void> {
    await this.refuse()
  }

  #accept(client: Socket): void {
    this.accepted += 1
    this.#open += 1
    const server = connect(this.#target)
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.setNoDelay(true)
      this.#sockets.add(from)
      // Broken connections are what a proxy of faults is for; 'close' follows.
      from.on('error', () => from.destroy())
      from.on('close', () => {
        this.#sockets.delete(from)
        if (from === server ? !this.forgets : !this.strands) to.destroy()
      })
    }
    client.once('close', () => (this.#open -= 1))
    client.on('data', (chunk) => this.#carry('requests', chunk, client, server))
    server.on('data', (chunk) => this.#carry('replies', chunk, server, client))
  }

  #carry(name: 'requests' | 'replies', came: Buffer, from: Socket, to: Socket): void {
    const way = this[name]
    way.bytes += came.length
    way.chunks += 1
    const chunk = way.rewrite?.(came) ?? came
    const { fault, delayMs } = way
    if (fault === 'pass') {
      if (delayMs === 0) to.write(chunk)
      else setTimeout(() => to.destroyed || to.write(chunk), delayMs)
    } else if (fault === 'hold') {
      this.#kept.push(() => to.destroyed || to.write(chunk))
    } else if (fault === 'halve') {
      to.write(chunk.subarray(0, Math.floor(chunk.length / 2)), () => from.destroy())
    } else if (fault === 'cut') {
      from.destroy()
    }
    // After the fault was applied: who waits for this may change the fault for what comes next.
    this.#tell(name, came)
  }

  #tell(name: 'requests' | 'replies', chunk: Buffer): void {
    const due = this.#watchers.filter(({ way, match }) => {
      if (way !== name) return false
      return match === undefined || (typeof match === 'string' ? chunk.includes(match) : match(chunk))
    })
    this.#watchers = this.#watchers.filter((watcher) => !due.includes(watcher))
    for (const { resolve } of due) resolve()
  }
}
