import { describe, expect, test } from 'vitest'
import { failure, spendsConnection } from '../../src/backends/postgres/failure.js'
import { openBackend } from '../../src/connect.js'
import { ConfigError } from '../../src/core/errors.js'

const URL_TEXT = 'postgres://app:hunter2@127.0.0.1:1/app'

test.each(['sslmode=', 'sslmode=requir', 'sslmode=verify-full&sslmode=', 'connections=1e9', 'connections=0'])(
  '?%s is refused in one clear line without secrets',
  async (query) => {
    const error = await openBackend(`${URL_TEXT}?${query}`).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ConfigError)
    expect((error as Error).message).toContain(query.split('=')[0])
    expect((error as Error).message).not.toMatch(/hunter2|\n/)
  },
)

test.each(['sslmode=disable', 'sslmode=verify-full', 'sslmode=no-verify', 'connections=1000'])(
  '?%s is taken',
  async (query) => {
    expect((await openBackend(`${URL_TEXT}?${query}`)).name).toBe('postgres')
  },
)

describe("Node's own errors and the server's", () => {
  test.each(['EPIPE', 'EPERM', 'ECONNRESET', undefined])(
    '%s: the connection is spent, and one may ask again',
    (code) => {
      const error = Object.assign(new Error('broken'), { code })
      expect(failure('a join', error).retryable).toBe(true)
      expect(spendsConnection(error)).toBe(true)
    },
  )

  test.each([
    ['42P01', false, false],
    ['40P01', true, false],
    ['XX000', true, false],
    ['57P01', true, true],
  ])('%s: retryable %s, spent %s', (code, retryable, spent) => {
    const error = Object.assign(new Error('said no'), { code })
    expect(failure('a join', error).retryable).toBe(retryable)
    expect(spendsConnection(error)).toBe(spent)
  })
})
