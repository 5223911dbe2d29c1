import type { Reporter, TestModule } from 'vitest/node'

/** Prints the closing line `N passed, N failed` that people and machines look for, and the count of each file. */
export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    let passed = 0
    let failed = unhandled.length
    for (const module of modules) {
      if (module.errors().length > 0) failed += 1
      for (const test of module.children.allTests()) {
        const state = test.result().state
        if (state === 'passed') passed += 1
        // A test that did not run proves nothing: skipped counts as failed, a store is never skipped silently.
        else failed += 1
      }
    }
    process.stdout.write(`\n${passed} passed, ${failed} failed\n`)
    if (failed > 0) process.exitCode = 1
  }
}
