import { ConfigError } from '../../core/errors.js'

export interface QuorumOptions {
  /** The longest ttl allowed, in ms: a server that was restarted counts only after so long. Default 60,000. */
  readonly maxTtlMs?: number
  /** How long one server may take before the others decide without it, 1,600 at most. Default 500. */
  readonly nodeTimeoutMs?: number
  /** What to call the servers in messages, in their order. */
  readonly labels?: readonly string[]
}

/** A try takes three rounds at most (ask, write back, undo), and core gives a call up after 5 s. */
const LONGEST_NODE_TIMEOUT_MS = 1_600
const SHORTEST_MAX_TTL_MS = 100

export function checkOptions(servers: number, maxTtlMs: number, nodeTimeoutMs: number): void {
  if (servers < 3) throw new ConfigError('A quorum needs at least three servers: one of two is no majority.')
  if (typeof maxTtlMs !== 'number' || !(maxTtlMs >= SHORTEST_MAX_TTL_MS)) {
    throw new ConfigError(`\`maxTtlMs\` must be a number of ${SHORTEST_MAX_TTL_MS} or more.`)
  }
  if (typeof nodeTimeoutMs !== 'number' || !(nodeTimeoutMs > 0 && nodeTimeoutMs <= LONGEST_NODE_TIMEOUT_MS)) {
    throw new ConfigError(
      `\`nodeTimeoutMs\` must be a number above 0, and ${LONGEST_NODE_TIMEOUT_MS} at most: three rounds must fit into a call.`,
    )
  }
}
