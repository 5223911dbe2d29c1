import type { Node } from './node.js'
import { poll } from './poll.js'

/**
 * The highest order that the other servers know; a majority of them must answer. That may be some that were restarted
 * empty themselves: to count only those that have learnt would keep a new set of servers, or one that was restarted as a
 * whole, from its first lock for as long as one of them is away, and more than a minority lost its data anyhow.
 */
export async function floorOfOthers(node: Node, nodes: readonly Node[], timeoutMs: number): Promise<bigint> {
  const others = nodes.filter((other) => other !== node)
  const needed = Math.floor(others.length / 2) + 1
  // All of them, not as soon as a majority has answered: of several that were restarted, each knows less.
  const answers = await poll(others, timeoutMs, {
    ask: async (other) => {
      // All are opened at once: the first to be there must not find the others away.
      if (!(await other.reached())) throw new Error(`${other.label} cannot be reached`)
      return await other.origin()
    },
  })
  const origins = [...answers.values()].flatMap((vote) => (vote instanceof Error ? [] : [vote.answer]))
  // Each server once, though it may have been given twice.
  const answered = new Set(origins.map(({ run }) => run).filter((run) => run !== node.run)).size
  if (answered < needed) {
    throw new Error(`it must learn the orders of ${needed} others, and ${answered} answered`)
  }
  return origins.reduce((highest, { last }) => (last > highest ? last : highest), 0n)
}
