import { expect, test } from 'vitest'
import { durationMs } from '../../src/core/duration.js'
import { ConfigError } from '../../src/core/errors.js'

test.each([
  [250, 250],
  ['250ms', 250],
  ['30s', 30_000],
  ['1.5s', 1_500],
  ['5m', 300_000],
  ['1h', 3_600_000],
  [0, 0],
])('%j is %d ms', (text, ms) => {
  expect(durationMs(text, 'ttl')).toBe(ms)
})

test.each(['', '5', '5 s', '-5s', '1d', 's', '1e3s', Number.NaN, -1, Number.POSITIVE_INFINITY, '800h', {}, null, true])(
  '%j is refused, with the option named',
  (bad) => {
    expect(() => durationMs(bad, 'ttl')).toThrow(ConfigError)
    expect(() => durationMs(bad, 'ttl')).toThrow(/^ttl: /)
  },
)
