import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { connect, openBackend } from '../../src/connect.js'
import { defaultPath, defaultUrl } from '../../src/connect/default.js'
import { parseStoreUrl } from '../../src/connect/url.js'

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
})

afterEach(() => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
  rmSync(folder, { recursive: true, force: true })
})

async function madeBy(url: string): Promise<void> {
  const client = await connect(url)
  await (await client.lock('x').acquire()).release()
  await client.close()
}

describe('sqlite:', () => {
  test('takes an absolute path, with or without slashes for a host', async () => {
    await madeBy(`sqlite:${folder}/a.db`)
    await madeBy(`sqlite://${folder}/b.db`)
    expect([existsSync(join(folder, 'a.db')), existsSync(join(folder, 'b.db'))]).toEqual([true, true])
  })

  test('takes a path relative to the working directory, with escapes', async () => {
    vi.spyOn(process, 'cwd').mockReturnValue(folder)
    await madeBy('sqlite:my%20locks%3F.db')
    expect(existsSync(join(folder, 'my locks?.db'))).toBe(true)
  })

  test.each([
    ['sqlite:', /names no file/],
    ['sqlite:/var/', /names no file/],
    ['sqlite://host/locks.db', /has no host/],
    ['sqlite::memory:', /memory store/],
    ['sqlite:locks.db?ttl=5', /unknown parameter 'ttl'/],
  ])('%s is refused', async (url, text) => {
    await expect(openBackend(url)).rejects.toMatchObject({ code: 'CONFIG', message: expect.stringMatching(text) })
  })
})

describe('the default', () => {
  const onLinux = { skip: process.platform === 'win32' || process.platform === 'darwin' }

  test('is in the state directory that the environment names', onLinux, () => {
    vi.stubEnv('XDG_STATE_HOME', '/some where/100%')
    expect(parseStoreUrl(defaultUrl())).toMatchObject({ scheme: 'sqlite:', path: '/some where/100%/holdfast/locks.db' })
  })

  test('is in the home directory when that is unset or not absolute', onLinux, () => {
    vi.stubEnv('HOME', '/home/ada')
    vi.stubEnv('XDG_STATE_HOME', 'relative')
    expect(defaultPath()).toBe('/home/ada/.local/state/holdfast/locks.db')
    vi.stubEnv('XDG_STATE_HOME', undefined)
    expect(defaultPath()).toBe('/home/ada/.local/state/holdfast/locks.db')
  })

  test('is made with its directory, for its owner alone', onLinux, async () => {
    vi.stubEnv('HOLDFAST_URL', undefined)
    vi.stubEnv('XDG_STATE_HOME', join(folder, 'state'))
    const umask = process.umask(0)
    try {
      const client = await connect()
      await (await client.lock('x').acquire()).release()
      const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8)
      expect(mode(join(folder, 'state', 'holdfast'))).toBe('700')
      expect(mode(defaultPath())).toBe('600')
      expect(mode(`${defaultPath()}-wal`)).toBe('600')
      await client.close()
    } finally {
      process.umask(umask)
    }
  })

  test('says what to do when its directory cannot be made', onLinux, async () => {
    vi.stubEnv('HOLDFAST_URL', undefined)
    vi.stubEnv('XDG_STATE_HOME', '/dev/null/state')
    await expect(connect()).rejects.toMatchObject({
      code: 'BACKEND',
      message: expect.stringMatching(/Set HOLDFAST_URL/),
    })
  })
})
