import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'

/** What each example must say; one that needs a server of its own is run by that store's test. */
const EXPECTED: Record<string, RegExp[]> = {
  'quick-start': [/charging under fence \d+/, /charged 4200/, /a second holder: no/, /was not free within 100 ms/],
  'fenced-write': [/refused: fence 1 is older than 2/, /is lost; the balance is 70/],
  'cron-once': [/^ran 1 time$/m],
  transfer: [/alice: 75, bob: 125/],
  primitives: [
    /a writer beside 2 readers: no/,
    /rw held weight 1/,
    /written/,
    /two more beside the three of gpu: no/,
    /led under a held lease/,
  ],
}

/** Examples that bring or need a server are run where that server is. */
const ELSEWHERE = /^(fence-guard|redis|postgres|mysql|zookeeper|etcd|memcached|migrate|redlock)/

function run(example: string): string {
  const state = mkdtempSync(join(tmpdir(), 'holdfast-example-'))
  try {
    const env = { ...process.env, XDG_STATE_HOME: state }
    const child = spawnSync(process.execPath, [`build/examples/${example}.js`], {
      env,
      encoding: 'utf8',
      timeout: 30_000,
    })
    expect(child.stderr).toBe('')
    expect(child.status).toBe(0)
    return child.stdout
  } finally {
    rmSync(state, { recursive: true })
  }
}

test.each(Object.keys(EXPECTED))('examples/%s.ts runs and says what it should', (example) => {
  const out = run(example)
  for (const pattern of EXPECTED[example]!) expect(out).toMatch(pattern)
})

test('every example is run by a test', () => {
  const files = readdirSync('examples').filter((file) => file.endsWith('.ts'))
  const names = files.map((file) => file.replace(/\.ts$/, ''))
  expect(names.filter((name) => !ELSEWHERE.test(name) && EXPECTED[name] === undefined)).toEqual([])
})
