import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    reporters: ['default', './test/closing-line.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // A rejection that nobody handles fails the run: it is a bug in the product or in the test.
    dangerouslyIgnoreUnhandledErrors: false,
  },
})
