import { defineConfig } from 'vitest/config'
import LongestFirst from './test/longest-first.js'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    reporters: ['default', './test/closing-line.ts'],
    pool: 'forks',
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    testTimeout: 120_000,
    hookTimeout: 180_000,
    // A rejection that nobody handles fails the run: it is a bug in the product or in the test.
    dangerouslyIgnoreUnhandledErrors: false,
  },
})
