import { expect, test } from 'vitest'
import { memory } from '../../src/backends/memory/index.js'
import { connect } from '../../src/connect.js'
import { ConfigError } from '../../src/core/errors.js'
import { Holdfast } from '../../src/core/holdfast.js'

/** What a program without types may pass. */
const any = (value: unknown): never => value as never
const locks = new Holdfast(memory())

const wrong: Record<string, () => unknown> = {
  'a URL instead of a backend': () => new Holdfast(any('redis://localhost')),
  'no backend': () => new Holdfast(any(undefined)),
  'an unknown option of a client': () => new Holdfast(memory(), any({ tll: 1 })),
  'a call that may take no time': () => new Holdfast(memory(), { callTimeout: 0 }),
  'options that are null': () => locks.lock('x', any(null)),
  'options that are a list': () => locks.lock('x').acquire(any([])),
  'a ttl that is an object without a prototype': () => locks.lock('x').acquire({ ttl: any(Object.create(null)) }),
  'a flag that is an object without a prototype': () => locks.lock('x').acquire({ renew: any(Object.create(null)) }),
  'use of nothing': () => locks.lock('x').use(any(undefined)),
  'use of a group for nothing': () => locks.all(['x']).use(any(undefined)),
  'lead for nothing': () => locks.election('x').lead(any(undefined)),
  'a sqlite path with a NUL': () => connect('sqlite:a%00b'),
  'an option with the name of a method': () => locks.lock('x', any({ toString: 1 })),
  'a semaphore without permits': () => locks.semaphore('x', any(undefined)),
  'a semaphore of 1.5': () => locks.semaphore('x', 1.5),
  'an unknown option of a read-write lock': () => locks.readWriteLock('x', any({ shared: true })),
  'an unknown option of an election': () => locks.election('x', any({ term: 1 })),
  'permits of a mutex': () => locks.lock('x').acquire({ permits: 2 }),
  'permits of a reader': () => locks.readWriteLock('x').read.tryAcquire({ permits: 2 }),
  'more permits than there are': () => locks.semaphore('x', 2).acquire({ permits: 3 }),
  'a ttl without a unit': () => locks.lock('x').acquire({ ttl: any('30') }),
  'a ttl of 0': () => locks.lock('x').acquire({ ttl: 0 }),
  'an unknown option of lead': () => locks.election('x').lead(() => undefined, any({ every: 1 })),
  'a prefix that is no text': () => locks.lines(any(5))[Symbol.asyncIterator]().next(),
  'evict of nothing': () => locks.evict(any(undefined)),
  'evict of a line': () => locks.evict(any({ kind: 'mutex', name: 'x' })),
  'evict with a fence as text': () => locks.evict(any({ kind: 'mutex', name: 'x', id: 'a', fence: '1' })),
  'adopt of nothing': () => locks.adopt(any(undefined)),
  'adopt of other text': () => locks.adopt('hello'),
  'adopt of a text with holes': () =>
    locks.adopt(
      Buffer.from(JSON.stringify([1, 'mutex', 'x', null, 'h', '1', 1, 1, 1, 0, 'o', null])).toString('base64url'),
    ),
  'an unknown option of connect': () => connect('memory:', any({ tll: 1 })),
  'a URL that is none': () => connect('localhost'),
  'a URL that is no text': () => connect(any(5)),
}

for (const [name, call] of Object.entries(wrong)) {
  test(`${name} is refused with a line that says so`, async () => {
    const error: unknown = await (async () => call())().then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(ConfigError)
    expect((error as ConfigError).message).toMatch(/^[^\n]{10,400}$/)
  })
}
