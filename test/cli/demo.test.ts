import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

describe('the demo', () => {
  it('loses updates without a lock and none under Holdfast, and draws a picture', () => {
    const dir = mkdtempSync(join(tmpdir(), 'holdfast-demo-test-'))
    try {
      const main = new URL('../../build/demo/main.js', import.meta.url).pathname
      const { status, stdout, stderr } = spawnSync(process.execPath, [main], { cwd: dir, encoding: 'utf8' })
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
      expect(stdout).toMatch(/Lost without a lock: [1-9]\d*\. Lost under Holdfast: 0\.\n$/)
      const svg = readFileSync(join(dir, 'demo-out', 'timeline.svg'), 'utf8')
      expect(svg).toContain('0 of 200 updates lost')
      expect(svg.match(/<rect /g)!.length).toBeGreaterThan(400)
      expect(unclosed(svg)).toEqual([])
    } finally {
      rmSync(dir, { recursive: true, force: true })
    }
  })
})

/** The tags that are not closed in order, and what is not text where text should be: none in a well-formed document. */
function unclosed(xml: string): string[] {
  const open: string[] = []
  const wrong: string[] = []
  for (const [tag, end, name, , self] of xml
    .replace(/^<\?xml[^>]*\?>/, '')
    .matchAll(/<(\/?)([a-z]+)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>/g)) {
    if (end === '/') {
      if (open.pop() !== name) wrong.push(tag)
    } else if (self !== '/') open.push(name!)
  }
  const text = xml.replace(/^<\?xml[^>]*\?>/, '').replaceAll(/<\/?[a-z]+(?:\s+[\w:-]+="[^"<]*")*\s*\/?>/g, '')
  return [...wrong, ...open, ...(text.match(/[<>]|&(?!amp;|lt;|gt;|quot;)/g) ?? [])]
}
