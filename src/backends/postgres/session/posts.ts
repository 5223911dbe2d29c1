import type { BackendError } from '../../../core/errors.js'
import type { Dial } from '../connections.js'
import { failure } from '../failure.js'
import { Post } from './post.js'
import { BEAT } from './sql.js'

/** A session with nothing to do is ended after this. */
const IDLE_MS = 10_000

/** The sessions of one client: one that tries and holds, and a bounded number that wait, each for one line. */
export class Posts {
  readonly #dial: Dial
  readonly #most: number
  readonly #name: string
  readonly #ended: (post: Post) => void
  readonly #free: Post[] = []
  readonly #all = new Set<Post>()
  #desk: Promise<Post> | undefined
  #probe: Promise<Post> | undefined
  #opening = 0
  #closed = false
  #sweep: NodeJS.Timeout | undefined

  constructor(dial: Dial, name: string, most: number, ended: (post: Post) => void) {
    this.#dial = dial
    this.#most = most
    this.#name = name
    this.#ended = ended
  }

  /** The session on which locks are tried, and which holds those that were free. It never waits. */
  desk(): Promise<Post> {
    this.#desk ??= this.#open(true).catch((error: unknown) => {
      this.#desk = undefined
      throw error
    })
    return this.#desk
  }

  /** A session that holds nothing, to ask whether somebody else would get a shared lock. */
  async probe(): Promise<Post> {
    this.#probe ??= this.#open(false).catch((error: unknown) => {
      this.#probe = undefined
      throw error
    })
    return await this.#probe
  }

  /** A session to wait on; undefined when all are taken. */
  async take(): Promise<Post | undefined> {
    const free = this.#free.pop()
    if (free !== undefined) return free
    if (this.#waiting + this.#opening >= this.#most) return undefined
    this.#opening += 1
    try {
      return await this.#open(false)
    } finally {
      this.#opening -= 1
    }
  }

  give(post: Post): void {
    if (post.ended || this.#closed) return
    post.idleSince = performance.now()
    this.#free.push(post)
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#sweep)
    for (const post of this.#all) post.end()
  }

  /** The sessions beside the desk and the probe. */
  get #waiting(): number {
    return this.#all.size - (this.#desk === undefined ? 0 : 1) - (this.#probe === undefined ? 0 : 1)
  }

  async #open(isDesk: boolean): Promise<Post> {
    const post = await Post.open(this.#dial, this.#name, isDesk, (ended) => this.#gone(ended))
    if (this.#closed) {
      post.end()
      return post
    }
    this.#all.add(post)
    this.#sweep ??= setInterval(() => this.#endIdle(), IDLE_MS / 2).unref()
    return post
  }

  #gone(post: Post): void {
    this.#all.delete(post)
    const at = this.#free.indexOf(post)
    if (at !== -1) this.#free.splice(at, 1)
    this.#forget(post)
    this.#ended(post)
  }

  /** One that is still being opened is another; when that fails, it was forgotten already. */
  #forget(post: Post): void {
    const [desk, probe] = [this.#desk, this.#probe]
    desk?.then(
      (opened) => {
        if (opened === post && this.#desk === desk) this.#desk = undefined
      },
      () => undefined,
    )
    probe?.then(
      (opened) => {
        if (opened === post && this.#probe === probe) this.#probe = undefined
      },
      () => undefined,
    )
  }

  #endIdle(): void {
    const before = performance.now() - IDLE_MS
    for (const post of [...this.#free]) {
      if (post.idleSince < before) {
        this.#free.splice(this.#free.indexOf(post), 1)
        this.#all.delete(post)
        post.end()
      }
    }
  }
}

/** Says on each session that we live; answers with those where that failed. */
export async function beat(posts: ReadonlySet<Post>): Promise<Map<Post, BackendError>> {
  const failed = new Map<Post, BackendError>()
  await Promise.all(
    [...posts].map(async (post) => {
      try {
        await post.keep()
        await post.run(BEAT, [])
      } catch (error) {
        failed.set(post, failure('a heartbeat', error))
      }
    }),
  )
  return failed
}
