import { expect } from 'vitest'
import { within } from '../../src/conformance/wait.js'
import type { Holdfast } from '../../src/core/holdfast.js'
import { startProxy } from '../servers/index.js'

/**
 * Loses the answer to a try, and with it the session that may hold the lock now: the server does not hear that it is
 * over. The next session of the same try must not be told that another holds.
 */
export async function tryWithLostAnswer(
  port: number,
  open: (port: number) => Promise<Holdfast>,
  asking: { readonly with: string; readonly untilAnswered?: () => Promise<unknown> },
): Promise<void> {
  const proxy = await startProxy({ port })
  try {
    const locks = await open(proxy.port)
    proxy.strands = true
    const lost = proxy.next('requests', asking.with).then(() => {
      proxy.replies.fault = 'drop'
      return proxy.next('replies')
    })
    const tried = locks
      .lock('own')
      .tryAcquire()
      .catch((error: unknown) => error)
    await within('its answer is lost', lost)
    await asking.untilAnswered?.()
    await proxy.heal()
    expect(await within('told', tried, 30_000)).toMatchObject({ code: 'BACKEND', retryable: true })
    // The server hears of the end of that session at last.
    proxy.strands = false
    proxy.cutNow()
    await (await within('free', locks.lock('own').acquire(), 30_000)).release()
  } finally {
    await proxy.heal()
    await proxy.stop()
  }
}
