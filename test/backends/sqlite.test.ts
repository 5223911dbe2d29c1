import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sqlite } from '../../src/backends/sqlite/index.js'
import { describeBackend } from '../suite.js'

describeBackend('sqlite', sqlite('unused').guarantees, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
  return { url: `sqlite:${join(folder, 'locks.db')}`, stop: async () => rmSync(folder, { recursive: true }) }
})
