import { expect, test } from 'vitest'
import { connect } from '../../src/connect.js'
import { parseStoreUrl } from '../../src/connect/url.js'
import { ConfigError } from '../../src/core/errors.js'

test('a store URL may name several hosts, and is decoded', () => {
  expect(parseStoreUrl('etcd://me:p%40ss@a:1,[::1]:2,c/pre%20fix?x=1&y=')).toMatchObject({
    scheme: 'etcd:',
    hosts: [{ host: 'a', port: 1 }, { host: '::1', port: 2 }, { host: 'c' }],
    user: 'me',
    password: 'p@ss',
    path: '/pre fix',
  })
  expect(parseStoreUrl('sqlite:relative/file.db')).toMatchObject({ hosts: [], path: 'relative/file.db' })
})

test.each(['', 'nonsense', '://x', 'redis://host:port', 'redis://a:99999', 'redis://%zz@a', 'ftp://u:hunter2@example'])(
  '%j is refused in one clear line without its secrets',
  async (bad) => {
    const error = await connect(bad).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ConfigError)
    expect((error as Error).message).not.toContain('hunter2')
    expect((error as Error).message).not.toContain('\n')
  },
)
