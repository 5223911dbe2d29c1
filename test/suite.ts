import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { applies, cases, runCase, type Subject } from '../src/conformance/index.js'
import { openBackend } from '../src/connect.js'
import type { Guarantees } from '../src/core/backend.js'

/** The child processes of a case run what was built, as users do. */
export const takerPath = fileURLToPath(new URL('../dist/conformance/taker.js', import.meta.url))

/** A store that was started for the tests. */
export interface Started {
  readonly url: string
  stop(): Promise<void>
}

/**
 * Runs every conformance case that the guarantees claim against a real store. A case that does not
 * apply is not there at all: what it needs is written in the guarantees, which the documents show too.
 */
export function describeBackend(name: string, guarantees: Guarantees, start: () => Promise<Started>): void {
  describe(name, () => {
    let started: Started
    const subject: Subject = {
      makeBackend: () => openBackend(started.url),
      get url() {
        return started.url
      },
      takerPath,
    }
    beforeAll(async () => {
      started = await start()
    })
    afterAll(async () => {
      await started.stop()
    })
    const shape: Subject = { makeBackend: subject.makeBackend, url: 'known once it was started' }
    for (const one of cases) if (applies(one, guarantees, shape)) test(one.name, () => runCase(one, subject))
  })
}
