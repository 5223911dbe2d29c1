import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const backends = readdirSync('src/backends')
/** A quorum is opened by the name that people know its best-known kind by. */
const known = (name: string): string => (name === 'quorum' ? 'redlock' : name)
const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as { exports: Record<string, string> }

test.each(backends)('%s has a factory, an export, an opener, the suite, a page and a benchmark', (name) => {
  const missing = [
    `src/backends/${name}/index.ts`,
    `src/connect/${known(name)}.ts`,
    `test/backends/${name}.test.ts`,
    `docs/backends/${name}.md`,
    `bench/stores/${known(name)}.ts`,
  ].filter((path) => !existsSync(path))
  expect(missing).toEqual([])
  expect(manifest.exports[`./${name}`]).toBe(`./dist/backends/${name}/index.js`)
  expect(readFileSync(`test/backends/${name}.test.ts`, 'utf8')).toContain('describeBackend(')
})

test('every export, page, opener and benchmark belongs to a backend', () => {
  const names = new Set([...backends, ...backends.map(known)])
  const stray = (folder: string, end: RegExp, not: readonly string[] = []) =>
    readdirSync(folder)
      .map((file) => file.replace(end, ''))
      .filter((name) => !names.has(name) && !not.includes(name))
  expect(stray('docs/backends', /\.md$/)).toEqual([])
  expect(stray('src/connect', /\.ts$/, ['default', 'url'])).toEqual([])
  expect(stray('bench/stores', /\.ts$/)).toEqual([])
})

test('no test is skipped, focused or left to do', () => {
  const files = readdirSync('test', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.test.ts'))
  const pattern = /\b(?:test|it|describe)\.(?:skip|only|todo|skipIf|runIf)\b/
  const own = 'structure.test.ts'
  expect(files.filter((file) => !file.endsWith(own) && pattern.test(readFileSync(`test/${file}`, 'utf8')))).toEqual([])
})

test('the relative links of every page lead somewhere', () => {
  const pages = [
    'README.md',
    'CONTRIBUTING.md',
    'CHANGELOG.md',
    ...readdirSync('docs', { recursive: true, encoding: 'utf8' }).map((file) => `docs/${file}`),
  ]
  const broken: string[] = []
  for (const page of pages.filter((path) => path.endsWith('.md'))) {
    const folder = page.includes('/') ? page.slice(0, page.lastIndexOf('/')) : '.'
    for (const [, target] of readFileSync(page, 'utf8').matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
      if (target === undefined || /^[a-z]+:/.test(target)) continue
      if (!existsSync(`${folder}/${target}`)) broken.push(`${page}: ${target}`)
    }
  }
  expect(broken).toEqual([])
})
