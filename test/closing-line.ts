import type { Reporter, TestModule, Vitest } from 'vitest/node'

/** Prints the closing line `N passed, N failed` that people and machines look for. */
export default class ClosingLine implements Reporter {
  #isFiltered = false

  onInit(vitest: Vitest): void {
    this.#isFiltered = vitest.config.testNamePattern !== undefined
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    let passed = 0
    let failed = unhandled.length
    let leftOut = 0
    for (const module of modules) {
      if (module.errors().length > 0) failed += 1
      for (const test of module.children.allTests()) {
        const state = test.result().state
        if (state === 'passed') passed += 1
        else if (state === 'skipped' && this.#isFiltered) leftOut += 1
        // A test that did not run proves nothing: skipped counts as failed, a store is never skipped silently.
        else failed += 1
      }
    }
    const rest = leftOut === 0 ? '' : `, ${leftOut} left out by -t`
    process.stdout.write(`\n${passed} passed, ${failed} failed${rest}\n`)
    if (failed > 0) process.exitCode = 1
  }
}
