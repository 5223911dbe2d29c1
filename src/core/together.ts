import type { Standing } from './backend.js'
import type { Answer } from './batcher.js'
import type { Desk } from './desk.js'
import { asBackendError, BackendError, ClosedError } from './errors.js'
import type { Place } from './place.js'

/** A group that never waits still asks again when the connection broke under it, but not for long. */
const MOST_TRIES = 3

/**
 * Joins several lines in one step. Held: all are; else none stands. Late: the yes came after its own lease had
 * ended, or the tickets are gone. An unknown outcome is asked again under the same ids, and undone everywhere when it
 * stays unknown.
 */
export async function joinTogether(
  desk: Desk,
  places: readonly Place[],
  group: string,
): Promise<'held' | 'refused' | 'late'> {
  const now = desk.clock.now()
  desk.leaps.note(now)
  for (const place of places) {
    desk.keeper.admit(place)
    place.leased(now, place.waitTtlMs)
    place.unanswered = true
  }
  try {
    for (let failures = 1; ; failures += 1) {
      for (const place of places) place.lastJoinAt = desk.clock.now()
      const answers = await tryTogether(desk, places, group)
      if (Array.isArray(answers)) return takeTogether(desk, places, answers)
      const retryable = answers instanceof BackendError && answers.retryable
      const tired = failures >= MOST_TRIES || desk.clock.now() - now >= desk.callTimeoutMs
      if (!retryable || tired || desk.closing) throw answers
      await desk.pause(desk.retryMs(failures))
    }
  } catch (error) {
    leaveAll(desk, places)
    throw error
  }
}

/** The answers, or the error that leaves the outcome of all unknown: half an answer for a group is none. */
async function tryTogether(desk: Desk, places: readonly Place[], group: string): Promise<Answer<Standing>[] | Error> {
  let failure: Error | undefined
  try {
    const answers = await desk.lanes.join.pushTogether(places.map((place) => place.joinRequest(false, group)))
    for (const { result } of answers) if (result.state === 'failed') failure ??= result.error
    if (failure === undefined) return answers
  } catch (error) {
    failure = asBackendError(desk.backend.name, error)
  }
  for (const place of places) place.failedJoins += 1
  return failure
}

function takeTogether(
  desk: Desk,
  places: readonly Place[],
  answers: readonly Answer<Standing>[],
): 'held' | 'refused' | 'late' {
  for (const [i, { result, sentAt }] of answers.entries()) desk.keeper.joined(places[i]!, result, sentAt)
  const closed = desk.closing
  if (!closed && places.every((place) => place.state === 'held')) return 'held'
  const over = answers.some(({ result }) => result.state === 'gone')
  const late = over || answers.every(({ result }) => result.state === 'granted')
  leaveAll(desk, places)
  if (closed) throw new ClosedError('The client was closed while it waited for several locks.')
  return late ? 'late' : 'refused'
}

function leaveAll(desk: Desk, places: readonly Place[]): void {
  for (const place of places) {
    const stood = place.state === 'held' || place.unanswered
    desk.keeper.forget(place)
    if (place.state !== 'lost') place.state = 'left'
    if (stood) desk.leaveInBackground(place)
  }
}
