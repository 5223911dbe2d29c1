import { onTestFinished } from 'vitest'
import type { Proxy } from '../servers/index.js'

/**
 * Breaks the connections of one proxy after the other, again and again, but only where so many answers came since the
 * last time: more than it takes to connect anew, or on a slow machine no connection would ever be of any use. Stops by
 * the returned function, or with the test.
 */
export function cutWhereItMoves(proxies: readonly Proxy[], everyMs: number, answers: number): () => void {
  const seen = proxies.map(({ replies }) => replies.chunks)
  let turn = 0
  const cutting = setInterval(() => {
    const at = (turn += 1) % proxies.length
    const { chunks } = proxies[at]!.replies
    if (chunks - seen[at]! < answers) return
    seen[at] = chunks
    proxies[at]!.cutNow()
  }, everyMs)
  const stop = (): void => clearInterval(cutting)
  onTestFinished(stop)
  return stop
}
