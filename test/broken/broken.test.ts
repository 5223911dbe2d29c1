import { expect, test } from 'vitest'
import { memory } from '../../src/backends/memory/index.js'
import { applies, cases, runCase } from '../../src/conformance/index.js'
import { BROKEN, brokenMaker } from './backends.js'

/** The suite's first case that rejects a backend; the cases about time come last, for they take some. */
async function caughtBy(name: string): Promise<string | undefined> {
  const makeBackend = brokenMaker(name)
  const subject = { makeBackend }
  const slow = /lease|ttl|minHold|grace|lapsed|dead waiter|maxHold|500/
  const quickFirst = cases.toSorted((a, b) => Number(slow.test(a.name)) - Number(slow.test(b.name)))
  for (const one of quickFirst) {
    if (!applies(one, memory().guarantees, subject)) continue
    const failed = await Promise.race([
      runCase(one, subject).then(
        () => false,
        () => true,
      ),
      tooLong(),
    ])
    if (failed) return one.name
  }
  return undefined
}

/** A case that hangs has rejected the backend, too. */
function tooLong(): Promise<boolean> {
  return new Promise((resolve) => void setTimeout(() => resolve(true), 5_000).unref())
}

const caught: string[] = []

test.each(Object.keys(BROKEN))('the suite rejects a backend with: %s', async (name) => {
  const by = await caughtBy(name)
  caught.push(`${name} — ${by ?? 'NOT CAUGHT'}`)
  expect(by, 'no case caught it').toBeDefined()
})

test('the list of broken backends, each with the case that caught it', () => {
  console.log(caught.join('\n'))
  expect(caught.length).toBeGreaterThanOrEqual(8)
})
