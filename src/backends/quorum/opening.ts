import type { Node } from './node.js'
import { poll } from './poll.js'

/** How long a server may take to be there before the client starts without it. */
const OPEN_MS = 2_000
/** How long a majority may take: without one there is nothing to start with. */
const MAJORITY_MS = 10_000

/**
 * Opens all servers; true when a majority is there. Never rejects: a server that cannot be reached is tried again for
 * as long as the client lives.
 */
export async function openAll(nodes: readonly Node[], majority: number): Promise<boolean> {
  const isMajority = (some: Iterable<Node>): boolean => [...some].filter((node) => node.opened).length >= majority
  const starts = new Map(nodes.map((node) => [node, node.start()]))
  const started = async (node: Node): Promise<void> => await starts.get(node)
  await poll(nodes, OPEN_MS, { ask: started })
  // Those that refuse have said so by now; those that are only slow may still come.
  if (!isMajority(nodes)) {
    await poll(nodes, MAJORITY_MS - OPEN_MS, { ask: started, decided: (answers) => isMajority(answers.keys()) })
  }
  // The first to be there could not learn from the others, who were still on their way.
  const unfit = nodes.filter((node) => node.opened && node.unfit !== undefined)
  await poll(unfit, OPEN_MS, { ask: (node) => node.check() })
  return isMajority(nodes)
}
