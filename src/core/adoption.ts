import type { RenewRequest, Standing } from './backend.js'
import type { Answer } from './batcher.js'
import type { Desk } from './desk.js'
import { BackendError } from './errors.js'
import type { Place } from './place.js'

/** A swap may be repeated: the store knows the new handle by then. */
const MOST_TRIES = 5

/** Renews another's ticket into this client's hands. False when the store does not let go of it to us. */
export async function adopt(desk: Desk, place: Place, swap: RenewRequest): Promise<boolean> {
  desk.alive.begin()
  try {
    for (let failures = 1; ; failures += 1) {
      const { result, sentAt } = await trySwap(desk, swap)
      if (result.state === 'granted') {
        desk.keeper.admit(place)
        desk.keeper.take(place, result, sentAt)
        if (desk.closing) desk.letGo(place)
        return place.state === 'held'
      }
      if (result.state !== 'failed') return false
      if (!result.error.retryable || failures >= MOST_TRIES || desk.closing) throw result.error
      await desk.pause(desk.retryMs(failures))
    }
  } finally {
    desk.alive.end()
  }
}

// A whole call that failed is as unknown as one item of it: the swap may have been made, and only we can repeat it.
async function trySwap({ lanes, clock }: Desk, swap: RenewRequest): Promise<Answer<Standing>> {
  try {
    return await lanes.renew.push(swap)
  } catch (error) {
    if (error instanceof BackendError) return { result: { state: 'failed', error }, sentAt: clock.now() }
    throw error
  }
}
