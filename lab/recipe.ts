/** The stores that a recipe can ask for; the stage starts them. */
export type StoreName = 'redis' | 'redlock' | 'memcached' | 'postgres' | 'mysql' | 'sqlite' | 'zookeeper' | 'etcd'

/** One way to build a lock, as the blog posts have it: small, faithful, and no better than the post. */
export interface Recipe {
  /** The file's name: 'redis-setnx-then-expire'. */
  readonly name: string
  /** For people: 'Redis: SETNX, then EXPIRE'. */
  readonly title: string
  readonly store: StoreName
  /** One sentence: where people find it and what it claims. */
  readonly story: string
  /** Whether an acquire gives a token that the register can compare. */
  readonly fenced?: boolean
  readonly offers: {
    /** The hold ends by itself when its holder dies. */
    readonly ttl: boolean
    /** It can wait. */
    readonly blocking: boolean
    readonly reentrant: boolean
  }
  open(env: Env): Promise<Locker>
}

/** What a contender gives to its recipe. */
export interface Env {
  /** Of the store, through the fault proxy. One for most; five for Redlock. */
  readonly urls: readonly string[]
  readonly ttlMs: number
  /** The contender's name: for recipes that store an owner. */
  readonly owner: string
  /**
   * A name that only the contenders of one cell share. What a recipe makes for all its locks (a table, a root node) is
   * called after it, so that cells played side by side on one server know nothing of each other.
   */
  readonly space: string
  /** The client's wall clock, which may be an hour off: what a recipe uses where the post says Date.now(). */
  readonly now: () => number
  /**
   * Told by a recipe that promises first come, first served, when the store has put this owner in line: whoever asks for
   * that lock from now on must be served later. Told again with false when it has lost its place.
   */
  readonly inLine: (lock: string, stands: boolean) => void
  /** Stands between two steps of a recipe: where a crash may strike. */
  readonly step: (label: string) => Promise<void>
}

/** An opened recipe. */
export interface Locker {
  /** Never waits. */
  tryAcquire(name: string): Promise<Held | undefined>
  /** Waits as the recipe waits: spins, watches, blocks. Left out where the recipe has none. */
  readonly acquire?: (name: string, waitMs: number) => Promise<Held | undefined>
  close(): Promise<void>
}

export interface Held {
  readonly fence?: bigint
  /** Whether the holder itself still believes that it holds. A recipe without any such notion says true. */
  believes(): boolean
  release(): Promise<boolean>
}
