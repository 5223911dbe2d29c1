import { readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openBackend } from '../../src/connect.js'
import type { Guarantees } from '../../src/core/backend.js'

/** One URL for each way to be told a promise; none of them is connected to. */
const URLS: Record<string, string> = {
  memory: 'memory:',
  sqlite: 'sqlite:unused.db',
  redis: 'redis://localhost:1',
  'redis (Cluster)': 'redis+cluster://localhost:1',
  redlock: 'redlock://localhost:1,localhost:2,localhost:3',
  memcached: 'memcached://localhost:1',
  postgres: 'postgres://localhost:1/app',
  'postgres (session mode)': 'postgres://localhost:1/app?mode=session',
  mysql: 'mysql://localhost:1/app',
  'mysql (session mode)': 'mysql://localhost:1/app?mode=session',
  zookeeper: 'zookeeper://localhost:1',
  etcd: 'etcd://localhost:1',
}

const PAGE = 'docs/guarantees.md'
const START =
  '<!-- made from the code: npm test says when it is out of date, UPDATE_DOCS=1 npx vitest run test/meta/guarantees.test.ts makes it anew -->'

function yes(value: boolean): string {
  return value ? 'yes' : 'no'
}

function row(name: string, given: Guarantees): string {
  const kinds = given.kinds.map((kind) => (kind === 'rw' ? 'read-write' : kind)).join(', ')
  const survives = given.survives.length === 0 ? '–' : given.survives.join(', ')
  const cells = [name, given.scope, given.order, given.wake, given.fence, given.lease, kinds, survives]
  return `| ${[...cells, yes(given.atomicGroup), yes(given.handover), given.minHold, `${given.minTtlMs} ms`].join(' | ')} |`
}

async function table(): Promise<string> {
  const heads = [
    'store',
    'scope',
    'order',
    'wake',
    'fence',
    'lease',
    'kinds',
    'survives',
    'atomic group',
    'handover',
    'minHold kept by',
    'least ttl',
  ]
  const lines = [`| ${heads.join(' | ')} |`, `|${heads.map(() => '---').join('|')}|`]
  const sentences: string[] = []
  for (const [name, url] of Object.entries(URLS)) {
    const { guarantees } = await openBackend(url)
    lines.push(row(name, guarantees))
    sentences.push(`- **${name}**: ${guarantees.sentence}`)
  }
  return `${START}\n\n${lines.join('\n')}\n\n${sentences.join('\n')}\n`
}

test('the page of guarantees says what the code says', async () => {
  const page = readFileSync(PAGE, 'utf8')
  const made = page.slice(0, page.indexOf(START)) + (await table())
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(PAGE, made)
  expect(readFileSync(PAGE, 'utf8')).toBe(made)
})
