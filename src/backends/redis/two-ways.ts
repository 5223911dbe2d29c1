import type { BackendError } from '../../core/errors.js'
import { failure } from './failure.js'

/** How requests are sent that do not all go the same way. */
export interface Ways<Request, Answer> {
  readonly isShort: (request: Request) => boolean
  readonly short: (requests: readonly Request[]) => Promise<Answer[]>
  readonly long: (requests: readonly Request[]) => Promise<Answer[]>
  /** For messages: 'join a line'. */
  readonly doing: string
}

/** Sends every request its way; the answers are in the order of the requests. */
export async function inTwoWays<Request, Answer>(
  requests: readonly Request[],
  { isShort, short, long, doing }: Ways<Request, Answer>,
): Promise<(Answer | BackendError)[]> {
  const ways = requests.map(isShort)
  if (!ways.includes(false)) return await short(requests)
  if (!ways.includes(true)) return await long(requests)
  const [shorts, longs] = [requests.filter((_, i) => ways[i]), requests.filter((_, i) => !ways[i])]
  const [gone, stood] = await Promise.all([
    eachAnswered(short(shorts), shorts.length, doing),
    eachAnswered(long(longs), longs.length, doing),
  ])
  let [nextShort, nextLong] = [0, 0]
  return ways.map((isOne) => (isOne ? gone[nextShort++]! : stood[nextLong++]!))
}

/** A call that fails as a whole is the failure of each of its items, and of no others. */
export async function eachAnswered<Answer>(
  call: Promise<Answer[]>,
  count: number,
  doing: string,
): Promise<(Answer | BackendError)[]> {
  try {
    return await call
  } catch (error) {
    const failed = failure(error, doing)
    return Array.from({ length: count }, () => failed)
  }
}
