import assert from 'node:assert/strict'
import { ConfigError } from '../../core/errors.js'
import type { Case } from '../case.js'

const ODD = [
  ' ',
  'a b',
  'a',
  'A',
  'a ',
  'á',
  'a\u0301',
  'a/b',
  'a//b',
  '/a',
  'a/',
  '.',
  '..',
  '../a',
  'a{b}c',
  'a}b',
  'a{}b',
  '{x}y',
  '%',
  '%2F',
  '_',
  '*',
  '?',
  "'; DROP TABLE x; --",
  '"',
  '\\',
  '`',
  '$1',
  '\n',
  '\t',
  '🔒',
  '锁',
  'ß',
  'ss',
  'İ',
  'ı',
  'lock-0000000001',
]

/** A name is the same identity on every store, and nothing but data. */
export const names: readonly Case[] = [
  {
    name: 'odd names are names: each is a line of its own and comes back as it was',
    run: async ({ connect, name }) => {
      const [a, b] = [await connect(), await connect()]
      const base = name('')
      const leases = await Promise.all(ODD.map((odd) => a.lock(base + odd).tryAcquire()))
      for (const [i, lease] of leases.entries())
        assert.ok(lease, `${JSON.stringify(ODD[i])} was taken for another name`)
      const found: string[] = []
      for await (const line of b.lines(base)) found.push(line.name.slice(base.length))
      assert.deepEqual(found.sort(), [...ODD].sort())
      for (const odd of ODD) assert.equal(await b.lock(base + odd).tryAcquire(), undefined, JSON.stringify(odd))
      for (const lease of leases) assert.equal(await lease!.release(), true)
    },
  },
  {
    name: 'a name of 512 bytes works, and names that differ in the last byte differ',
    run: async ({ connect, name }) => {
      const locks = await connect()
      const stem = name('') + 'é'.repeat(200)
      const long = (end: string) => stem + 'x'.repeat(512 - Buffer.byteLength(stem) - 1) + end
      const [one, two] = [await locks.lock(long('1')).tryAcquire(), await locks.lock(long('2')).tryAcquire()]
      assert.ok(one !== undefined && two !== undefined)
      assert.equal(await locks.lock(long('1')).tryAcquire(), undefined)
      await one.release()
      await two.release()
      assert.throws(() => locks.lock(`${long('1')}x`), ConfigError)
    },
  },
  {
    name: 'bad names and options are refused before anything is taken',
    run: async ({ connect, name }) => {
      const locks = await connect()
      for (const bad of ['', 'a\0b', '\ud800', 'x'.repeat(513), undefined, 5]) {
        assert.throws(() => locks.lock(bad as string), ConfigError, JSON.stringify(bad))
      }
      const lock = locks.lock(name())
      for (const bad of [
        { ttl: -1 },
        { ttl: '5 parsecs' },
        { ttl: 0 },
        { wait: Number.NaN },
        { ttl: '800h' },
        { tll: 5 },
        { permits: 2 },
      ]) {
        await assert.rejects(lock.acquire(bad as object), ConfigError, JSON.stringify(bad))
      }
      assert.deepEqual(await locks.view(name()), [])
    },
  },
]
