import type { Origin } from '../../core/backend.js'
import type { Node } from './node.js'
import { poll } from './poll.js'

/**
 * The highest order that the other servers know. A majority of them must have learnt it themselves: of several that were
 * restarted empty, none knows anything, and together they would be a majority all the same. Where all others answer (a
 * new set of servers, or one that was restarted as a whole), there is nobody left who could know more.
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
  const learnt = countLearnt(origins, node.run)
  if (learnt < needed && origins.length < others.length) {
    throw new Error(
      `it must learn the orders of ${needed} others that have learnt them, or of all ${others.length}: ` +
        `${learnt} that have, and ${origins.length} in all, answered`,
    )
  }
  return origins.reduce((highest, { last }) => (last > highest ? last : highest), 0n)
}

/** Each server once, though it may have been given twice. */
function countLearnt(origins: readonly Origin[], own: string | undefined): number {
  return new Set(origins.flatMap(({ run, learnt }) => (learnt && run !== own ? [run] : []))).size
}
